# The probe's job: what this kernel's types are.
cat /sys/kernel/btf/vmlinux > /out/vmlinux.btf
