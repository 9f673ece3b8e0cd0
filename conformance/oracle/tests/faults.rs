//! Trouble inside kernel code is an error with a name, not the end of the process.

mod common;

use common::{kernels, with_world};
use debloat_oracle::{Error, Fault, World, WorldOptions};

/// The fault of a call that must fail.
fn fault(result: debloat_oracle::Result<u64>) -> debloat_oracle::Result<String> {
    match result {
        Err(Error::Fault(f)) => Ok(f.to_string()),
        Err(e) => Err(e),
        Ok(v) => Err(Error::Request(format!("no fault, but {v:#x}"))),
    }
}

#[test]
fn a_call_of_an_unresolved_symbol_is_named_and_poisons_the_world() {
    for kernel in kernels("a_call_of_an_unresolved_symbol_is_named_and_poisons_the_world") {
        let (text, after) = with_world(&kernel, WorldOptions::default(), |w| {
            let trap = w.import("no_such_kernel_function");
            let text = fault(w.call_address(trap, &[]))?;
            Ok((text, w.call("strlen", &[trap]).err().map(|e| e.to_string())))
        });
        assert!(text.contains("unresolved symbol `no_such_kernel_function`"), "{text}");
        assert!(after.is_some_and(|e| e.contains("unusable after an earlier trap")));
    }
}

#[test]
fn a_warn_is_named_with_its_message_and_the_world_goes_on() {
    for kernel in kernels("a_warn_is_named_with_its_message_and_the_world_goes_on") {
        let text = with_world(&kernel, WorldOptions::default(), |w| {
            // A kobject that was never initialised, with a sound reference count.
            let object = w.call_address(w.import("kmalloc_large"), &[256])?;
            let count = w.btf().offset("kobject", "kref.refcount.refs.counter")?;
            w.poke(object + count, 4, 5);
            let text = fault(w.call("kobject_put", &[object]))?;
            // Still alive.
            w.create_qdisc("pfifo", debloat_oracle::QdiscSetup::default(), None)?.destroy()?;
            Ok(text)
        });
        assert!(text.starts_with("WARN at vmlinux:kobject_put+"), "{text}");
        assert!(text.contains("kobject.c:"), "{text}");
        assert!(text.contains("is not initialized"), "{text}");
    }
}

#[test]
fn a_bug_is_named_with_its_place() {
    for kernel in kernels("a_bug_is_named_with_its_place") {
        let text = with_world(&kernel, WorldOptions::default(), |w| {
            // A list entry whose neighbours do not point back.
            let entry = w.symbol("init_net").ok_or_else(|| Error::NoSymbol("init_net".into()))?;
            for i in 0..8 {
                w.poke(entry + 8 * i, 8, entry + 8);
            }
            let name = ["__list_add_valid_or_report", "__list_add_valid"];
            let name = name.into_iter().find(|n| w.symbol(n).is_some()).unwrap_or("__list_add_valid");
            fault(w.call(name, &[entry + 32, entry, entry + 16]))
        });
        assert!(text.starts_with("BUG at vmlinux:__list_add_valid"), "{text}");
        assert!(text.contains("list_debug.c:"), "{text}");
    }
}

#[test]
fn a_trap_is_named_with_symbol_and_address() {
    for kernel in kernels("a_trap_is_named_with_symbol_and_address") {
        let text = with_world(&kernel, WorldOptions::default(), |w| fault(w.call("strlen", &[0x10])));
        assert!(text.starts_with("SIGSEGV at vmlinux:strlen+"), "{text}");
        assert!(text.contains("address 0x10"), "{text}");
    }
}

#[test]
fn bad_frees_are_told() {
    for kernel in kernels("bad_frees_are_told") {
        let text = with_world(&kernel, WorldOptions::default(), |w| {
            let (alloc, free) = (w.import("kmalloc_large"), w.import("kfree"));
            let at = w.call_address(alloc, &[100])?;
            w.call_address(free, &[at])?;
            Ok((fault(w.call_address(free, &[at]))?, fault(w.call_address(free, &[at + 64]))?))
        });
        assert!(text.0.contains("already free"), "{text:?}");
        assert!(text.1.contains("never allocated"), "{text:?}");
    }
}

#[test]
fn a_hang_is_stopped_and_named() {
    for kernel in kernels("a_hang_is_stopped_and_named") {
        let options = WorldOptions { call_timeout_ms: 200, ..WorldOptions::default() };
        let text = with_world(&kernel, options, |w| {
            // jmp self, in memory of the world.
            let code = w.call_address(w.import("kmalloc_large"), &[64])?;
            w.poke(code, 2, 0xfeeb);
            fault(w.call_address(code, &[]))
        });
        assert!(text.contains("no answer within 200 ms"), "{text}");
    }
}

#[test]
fn one_world_at_a_time_and_another_after_it() {
    for kernel in kernels("one_world_at_a_time_and_another_after_it") {
        let (second, third) = with_world(&kernel, WorldOptions::default(), |w| {
            let second = World::load(w.kernel(), WorldOptions::default());
            Ok((matches!(second, Err(Error::AlreadyLoaded)), true))
        });
        assert!(second && third);
        let again = debloat_oracle::worker::isolate(|| {
            for _ in 0..2 {
                let w = World::load(&kernel, WorldOptions::default()).map_err(|e| e.to_string())?;
                drop(w);
            }
            Ok::<_, String>(())
        });
        assert_eq!(again, Ok(Ok(())));
    }
}

#[test]
fn absent_things_have_their_own_errors() {
    for kernel in kernels("absent_things_have_their_own_errors") {
        let texts = with_world(&kernel, WorldOptions::default(), |w| {
            let s = w.create_socket()?;
            Ok([
                w.create_qdisc("nothing", debloat_oracle::QdiscSetup::default(), None).err().map(|e| e.to_string()),
                s.attach("nothing").err().map(|e| e.to_string()),
                s.attach("reno")?.cong_control(0, 0, &Default::default()).err().map(|e| e.to_string()),
                s.get("no_field").err().map(|e| e.to_string()),
                w.call("no_function", &[]).err().map(|e| e.to_string()),
            ])
        });
        let texts: Vec<String> = texts.into_iter().flatten().collect();
        assert_eq!(texts.len(), 5, "{texts:?}");
        assert!(
            texts[0].contains("no module `sch_nothing`") && texts[1].contains("no module `tcp_nothing`"),
            "{texts:?}"
        );
        assert!(texts[2].contains("reno has no `cong_control`"), "{texts:?}");
        assert!(texts[3].contains("no field `no_field`") && texts[4].contains("`no_function`"), "{texts:?}");
    }
    let none = debloat_oracle::find("0.0");
    assert!(none.is_err_and(|e| e.to_string().contains("oracle fetch")));
    let _ = Fault::ScriptEmpty("draws");
}
