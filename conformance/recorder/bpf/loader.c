/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Loads the kernel part, attaches the subject's programs, and writes the record stream until it is told to stop.
 *   debloat-record -k KIND[,KIND...] -O OBJECT -o FILE [-m RING_MIB] [-R READY_FILE]
 * KIND: a qdisc (codel, fq_codel, pie, fq_pie, cake, red, sfq, fq) or a congestion control (reno, cubic, bbr, dctcp).
 * Ends on SIGTERM or SIGINT: detaches, drains the ring, writes the closing record. Exit code 0 only then. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
#include "record.h"

/* As in common.bpf.h. */
struct config {
    u64 text_low[3], text_high[3];
    u64 hash_secret;
    u32 bbr_sample_arg, fq_pie;
};
struct outcome {
    u64 lost, foreign, second;
    u8 secret[16];
    u32 sequence;
};

enum { MAX_PROGRAMS = 512 };

struct loader {
    const char *kinds, *object_path, *out_path, *ready_path;
    int ring_mib;
    struct bpf_object *object;
    struct bpf_link *links[MAX_PROGRAMS];
    int link_count;
    char *functions; /* the names that programs may want to hook and that exist, "\nname\n..." */
    FILE *out;
    u64 records, bytes;
};

static volatile sig_atomic_t stop;
static void on_signal(int signal) { (void)signal; stop = 1; }

static void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("debloat-record: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

/* How long the steps took: an emulated guest is slow enough to make that interesting. */
static void phase(const char *name)
{
    static struct timespec last;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (last.tv_sec)
        fprintf(stderr, "%s %ld ms\n", name, (now.tv_sec - last.tv_sec) * 1000 + (now.tv_nsec - last.tv_nsec) / 1000000);
    last = now;
}

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list args)
{
    return level == LIBBPF_DEBUG ? 0 : vfprintf(stderr, format, args);
}

static bool listed(const char *list, const char *word, size_t length)
{
    for (const char *at = list; *at;) {
        size_t n = strcspn(at, ",");
        if (n == length && !strncmp(at, word, n))
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}
static bool kind(const struct loader *l, const char *word) { return listed(l->kinds, word, strlen(word)); }

static bool is_congestion(const char *word, size_t n) { return listed("reno,cubic,bbr,dctcp", word, n); }
static bool is_qdisc(const char *word, size_t n) { return listed("codel,fq_codel,pie,fq_pie,cake,red,sfq,fq", word, n); }

static bool any_kind(const struct loader *l, bool (*test)(const char *, size_t))
{
    for (const char *at = l->kinds; *at;) {
        size_t n = strcspn(at, ",");
        if (test(at, n))
            return true;
        at += n + (at[n] == ',');
    }
    return false;
}

/* Is this group of programs wanted? */
static bool wanted(const struct loader *l, const char *program)
{
    const char *end = strstr(program, "__");
    if (!end)
        return false;
    size_t n = end - program;
    if (n == 6 && !strncmp(program, "always", n))
        return true;
    if (n == 5 && !strncmp(program, "input", n))
        return any_kind(l, is_qdisc);
    if (n == 4 && !strncmp(program, "core", n))
        return any_kind(l, is_congestion);
    if (n == 8 && !strncmp(program, "pie_core", n))
        return kind(l, "pie") || kind(l, "fq_pie");
    if (n == 4 && !strncmp(program, "reno", n) && (kind(l, "dctcp") || kind(l, "cubic")))
        return true; /* they use some of reno's functions: dctcp grows by one, cubic undoes by one */
    return listed(l->kinds, program, n);
}

/* Is there a function of this name? Functions that were inlined or cloned under another name are absent. */
static bool present(const struct loader *l, const char *function)
{
    char needle[160];
    snprintf(needle, sizeof needle, "\n%s\n", function);
    return strstr(l->functions, needle) != NULL;
}

struct symbol { u64 address; char type; char name[96], module[64]; };

static int by_address(const void *a, const void *b)
{
    u64 x = ((const struct symbol *)a)->address, y = ((const struct symbol *)b)->address;
    return x < y ? -1 : x > y;
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The names of all functions that some program hooks, sorted; the count into `count`. */
static const char **hooked_names(const struct loader *l, size_t *count)
{
    const char **names = malloc(MAX_PROGRAMS * sizeof *names);
    struct bpf_program *program;
    *count = 0;
    bpf_object__for_each_program(program, l->object) {
        const char *slash = strchr(bpf_program__section_name(program), '/');
        if (slash && *count < MAX_PROGRAMS)
            names[(*count)++] = slash + 1;
    }
    qsort(names, *count, sizeof *names, by_name);
    return names;
}

/* Reads the symbols once: the code of the subject (whole modules, or the built-in functions
 * that start with its name), the hookable functions, the flow-hash secret. */
static void read_symbols(struct loader *l, struct config *config)
{
    static const struct { const char *kind, *module, *prefix; } TABLE[] = {
        {"codel", "[sch_codel]", "codel_qdisc_"}, {"fq_codel", "[sch_fq_codel]", "fq_codel_"},
        {"pie", "[sch_pie]", "pie_"}, {"fq_pie", "[sch_fq_pie]", "fq_pie_"}, {"fq_pie", "[sch_pie]", "pie_"},
        {"cake", "[sch_cake]", "cake_"}, {"red", "[sch_red]", "red_"}, {"sfq", "[sch_sfq]", "sfq_"},
        {"fq", "[sch_fq]", "fq_"},
    };
    FILE *file = fopen("/proc/kallsyms", "r");
    if (!file)
        fail("/proc/kallsyms: %s", strerror(errno));
    size_t count = 0, room = 1 << 17, hooked = 0, used = 1;
    struct symbol *symbols = malloc(room * sizeof *symbols);
    const char **names = hooked_names(l, &hooked);
    l->functions = malloc(hooked * sizeof symbols->name + 2);
    strcpy(l->functions, "\n");
    char line[512];
    while (fgets(line, sizeof line, file)) {
        struct symbol s = {};
        unsigned long address;
        if (sscanf(line, "%lx %c %95s %63s", &address, &s.type, s.name, s.module) < 3)
            continue;
        s.address = address;
        if (!strcmp(s.name, "hashrnd") && !s.module[0])
            config->hash_secret = s.address;
        if (s.type != 't' && s.type != 'T')
            continue;
        const char *name = s.name;
        if (bsearch(&name, names, hooked, sizeof *names, by_name) && !present(l, name))
            used += sprintf(l->functions + used, "%s\n", name);
        if (count == room)
            symbols = realloc(symbols, (room *= 2) * sizeof *symbols);
        symbols[count++] = s;
    }
    fclose(file);
    if (!count || !symbols[count / 2].address)
        fail("/proc/kallsyms shows no addresses: root rights are needed (kernel.kptr_restrict)");
    qsort(symbols, count, sizeof *symbols, by_address);
    int range = 0;
    for (size_t t = 0; t < sizeof TABLE / sizeof *TABLE && range < 3; t++) {
        if (!kind(l, TABLE[t].kind))
            continue;
        /* Functions of one source file lie together; a few others (set-up code) may lie elsewhere. */
        u64 low = 0, high = 0, run_low = 0, run_high = 0;
        int most = 0, members = 0;
        for (size_t i = 0; i < count; i++) {
            const struct symbol *s = &symbols[i];
            if (s->module[0] ? strcmp(s->module, TABLE[t].module) : strncmp(s->name, TABLE[t].prefix, strlen(TABLE[t].prefix)))
                continue;
            if (!run_low || s->address - run_high > 0x10000) {
                run_low = s->address;
                members = 0;
            }
            /* A function ends where the next one starts; a module's last one within a page. */
            u64 next = i + 1 < count ? symbols[i + 1].address : ~0ull;
            run_high = next - s->address < 0x2000 ? next : s->address + 0x1000;
            if (++members > most) {
                most = members;
                low = run_low;
                high = run_high;
            }
        }
        if (!low)
            fail("the kernel has no code of %s: load its module first", TABLE[t].kind);
        config->text_low[range] = low;
        config->text_high[range++] = high;
    }
    free(symbols);
    free(names);
    if (!config->hash_secret && any_kind(l, is_qdisc))
        fail("the kernel's symbol hashrnd (the flow-hash secret) is not visible");
}

/* Which argument of bbr_main is the rate sample: it moved between versions. */
static u32 bbr_sample_arg(void)
{
    struct btf *base = btf__load_vmlinux_btf();
    struct btf *module = base ? btf__load_module_btf("tcp_bbr", base) : NULL;
    u32 found = 1;
    s32 id = module ? btf__find_by_name_kind(module, "bbr_main", BTF_KIND_FUNC) : -1;
    if (id > 0) {
        const struct btf_type *proto = btf__type_by_id(module, btf__type_by_id(module, id)->type);
        found = btf_vlen(proto) - 1;
    }
    btf__free(module);
    btf__free(base);
    return found;
}

static struct bpf_map *section(const struct loader *l, const char *suffix)
{
    struct bpf_map *map;
    bpf_object__for_each_map(map, l->object) {
        const char *name = bpf_map__name(map), *dot = strrchr(name, '.');
        if (dot && !strcmp(dot, suffix))
            return map;
    }
    fail("the object has no section %s", suffix);
    return NULL;
}

static void load(struct loader *l)
{
    l->object = bpf_object__open_file(l->object_path, NULL);
    if (!l->object)
        fail("%s: %s", l->object_path, strerror(errno));
    struct config config = {};
    read_symbols(l, &config);
    config.fq_pie = kind(l, "fq_pie");
    config.bbr_sample_arg = kind(l, "bbr") ? bbr_sample_arg() : 1;
    size_t size = 0;
    struct bpf_map *rodata = section(l, ".rodata");
    const void *initial = bpf_map__initial_value(rodata, &size);
    if (size < sizeof config)
        fail("the object's configuration has %zu bytes, expected %zu", size, sizeof config);
    void *changed = malloc(size);
    memcpy(changed, initial, size);
    memcpy(changed, &config, sizeof config);
    if (bpf_map__set_initial_value(rodata, changed, size))
        fail("the configuration could not be set");
    free(changed);
    struct bpf_map *ring = bpf_object__find_map_by_name(l->object, "ring");
    bpf_map__set_max_entries(ring, (u32)l->ring_mib << 20);
    struct bpf_program *program;
    bpf_object__for_each_program(program, l->object) {
        const char *name = bpf_program__name(program), *slash = strchr(bpf_program__section_name(program), '/');
        bool on = wanted(l, name);
        if (on && slash && !present(l, slash + 1)) {
            if (strstr(name, "__enqueue_") || strstr(name, "__dequeue_") || strstr(name, "__clock_"))
                fail("the kernel has no function %s", slash + 1);
            fprintf(stderr, "absent %s\n", slash + 1);
            on = false;
        }
        bpf_program__set_autoload(program, on);
    }
    phase("symbols");
    int error = bpf_object__load(l->object);
    if (error)
        fail("the kernel refused the recorder: %s", strerror(-error));
}

static void attach(struct loader *l)
{
    struct bpf_program *program;
    bpf_object__for_each_program(program, l->object) {
        if (!bpf_program__autoload(program) || bpf_program__type(program) == BPF_PROG_TYPE_SYSCALL)
            continue;
        struct bpf_link *link = bpf_program__attach(program);
        if (!link)
            fail("%s: cannot be attached: %s", bpf_program__section_name(program), strerror(errno));
        if (l->link_count == MAX_PROGRAMS)
            fail("too many programs");
        l->links[l->link_count++] = link;
    }
}

static void put(struct loader *l, const void *data, size_t n)
{
    if (fwrite(data, 1, n, l->out) != n)
        fail("%s: %s", l->out_path, strerror(errno));
    l->records++;
    l->bytes += n;
}

static int on_record(void *context, void *data, size_t size)
{
    const struct rhdr *h = data;
    if (h->len > size)
        fail("a record of type %u says %u bytes and has %zu", h->type, h->len, size);
    put(context, data, h->len);
    return 0;
}

/* A text record is padded with zero bytes to a multiple of eight. */
static void put_text(struct loader *l, u16 type, const char *text)
{
    size_t n = sizeof(struct rhdr) + strlen(text) + 1;
    n = (n + 7) / 8 * 8;
    if (n > 65528)
        fail("a text record is too long");
    struct r_text *r = calloc(1, n);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    r->h.type = type;
    r->h.len = n;
    r->h.ts = now.tv_sec * 1000000000ull + now.tv_nsec;
    strcpy((char *)r->b, text);
    put(l, r, n);
    free(r);
}

#define NAME_ONE(name, path) " " #name
static void put_head(struct loader *l)
{
    struct utsname system;
    uname(&system);
    char text[16384];
    snprintf(text, sizeof text,
             "version %d\nrelease %s\nmachine %s\nkinds %s\n"
             "state codel 1 zero" CODEL_STATE(NAME_ONE) "\nstate fq_codel 2 zero" FQ_CODEL_STATE(NAME_ONE) "\n"
             "state fq_codel_flow 3 bucket" FQ_CODEL_FLOW_STATE(NAME_ONE) "\nstate pie 4 zero" PIE_STATE(NAME_ONE) "\n"
             "state fq_pie 5 zero" FQ_PIE_STATE(NAME_ONE) "\nstate fq_pie_flow 6 bucket" FQ_PIE_FLOW_STATE(NAME_ONE) "\n"
             "state cake 7 zero" CAKE_STATE(NAME_ONE) "\nstate cake_tin 8 tin" CAKE_TIN_STATE(NAME_ONE) "\n"
             "state cake_flow 9 tin_queue" CAKE_FLOW_STATE(NAME_ONE) "\nstate red 10 zero" RED_STATE(NAME_ONE) "\n"
             "state sfq 11 zero" SFQ_STATE(NAME_ONE) "\nstate sfq_slot 12 slot" SFQ_SLOT_STATE(NAME_ONE) "\n"
             "state fq 13 zero" FQ_STATE(NAME_ONE) "\n",
             RECORD_VERSION, system.release, system.machine, l->kinds);
    put_text(l, T_HEAD, text);
}

/* Events that a program missed because it was interrupted inside itself. Twins cover for each other. */
static u64 missed(const struct loader *l)
{
    u64 sum = 0;
    struct bpf_program *program;
    bpf_object__for_each_program(program, l->object) {
        if (!bpf_program__autoload(program))
            continue;
        struct bpf_prog_info info = {};
        u32 size = sizeof info;
        if (bpf_obj_get_info_by_fd(bpf_program__fd(program), &info, &size) || !info.recursion_misses)
            continue;
        const char *name = bpf_program__name(program), *tail = name + strlen(name) - 2;
        bool twin = !strcmp(tail, "_a") || !strcmp(tail, "_b");
        fprintf(stderr, "missed %llu %s%s\n", (unsigned long long)info.recursion_misses, name, twin ? " (has a twin)" : "");
        if (!twin)
            sum += info.recursion_misses;
    }
    return sum;
}

static void put_end(struct loader *l)
{
    struct bpf_program *secret = bpf_object__find_program_by_name(l->object, "always__secret");
    LIBBPF_OPTS(bpf_test_run_opts, run);
    if (secret && bpf_prog_test_run_opts(bpf_program__fd(secret), &run))
        fprintf(stderr, "the flow-hash secret could not be read: %s\n", strerror(errno));
    struct bpf_map *bss = section(l, ".bss");
    u32 zero = 0;
    void *copy = calloc(1, bpf_map__value_size(bss) + 8);
    if (bpf_map_lookup_elem(bpf_map__fd(bss), &zero, copy))
        fail("the counters could not be read: %s", strerror(errno));
    struct outcome outcome;
    memcpy(&outcome, copy, sizeof outcome);
    free(copy);
    char hex[33] = "", text[1024];
    for (int i = 0; i < 16; i++)
        sprintf(hex + 2 * i, "%02x", outcome.secret[i]);
    u64 misses = missed(l);
    snprintf(text, sizeof text, "lost %llu\nmissed %llu\nsequence %u\nforeign_clock_reads %llu\nsecond_attachment %llu\nhashrnd %s\n",
             (unsigned long long)outcome.lost, (unsigned long long)misses, outcome.sequence,
             (unsigned long long)outcome.foreign, (unsigned long long)outcome.second, hex);
    put_text(l, T_END, text);
    fputs(text, stderr);
}

static void options(struct loader *l, int count, char **words)
{
    for (int c; (c = getopt(count, words, "k:O:o:m:R:")) > 0;) {
        switch (c) {
        case 'k': l->kinds = optarg; break;
        case 'O': l->object_path = optarg; break;
        case 'o': l->out_path = optarg; break;
        case 'm': l->ring_mib = atoi(optarg); break;
        case 'R': l->ready_path = optarg; break;
        default: fail("usage: -k KINDS -O OBJECT -o FILE [-m RING_MIB] [-R READY_FILE]");
        }
    }
    if (!l->kinds || !l->object_path || !l->out_path)
        fail("usage: -k KINDS -O OBJECT -o FILE [-m RING_MIB] [-R READY_FILE]");
    for (const char *at = l->kinds; *at;) {
        size_t n = strcspn(at, ",");
        if (!is_congestion(at, n) && !is_qdisc(at, n))
            fail("unknown kind %.*s", (int)n, at);
        at += n + (at[n] == ',');
    }
    if (l->ring_mib < 1 || l->ring_mib > 1024 || (l->ring_mib & (l->ring_mib - 1)))
        fail("the ring's size must be a power of two of MiB");
}

int main(int count, char **words)
{
    static struct loader l = {.ring_mib = 64};
    options(&l, count, words);
    if (access("/sys/kernel/btf/vmlinux", R_OK))
        fail("the kernel has no type information (BTF): /sys/kernel/btf/vmlinux: %s", strerror(errno));
    struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &all);
    libbpf_set_print(print_libbpf);
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    phase("start");
    load(&l);
    phase("load");
    l.out = fopen(l.out_path, "w");
    if (!l.out)
        fail("%s: %s", l.out_path, strerror(errno));
    put_head(&l);
    struct ring_buffer *ring = ring_buffer__new(bpf_map__fd(bpf_object__find_map_by_name(l.object, "ring")), on_record, &l, NULL);
    if (!ring)
        fail("the ring cannot be read: %s", strerror(errno));
    attach(&l);
    phase("attach");
    fprintf(stderr, "attached %d\n", l.link_count);
    if (l.ready_path) {
        FILE *ready = fopen(l.ready_path, "w");
        if (!ready || fclose(ready))
            fail("%s: %s", l.ready_path, strerror(errno));
    }
    while (!stop) {
        int n = ring_buffer__poll(ring, 100);
        if (n < 0 && n != -EINTR)
            fail("the ring cannot be read: %s", strerror(-n));
    }
    for (int i = 0; i < l.link_count; i++)
        bpf_link__destroy(l.links[i]);
    while (ring_buffer__consume(ring) > 0)
        ;
    put_end(&l);
    if (fclose(l.out))
        fail("%s: %s", l.out_path, strerror(errno));
    fprintf(stderr, "records %llu bytes %llu\n", (unsigned long long)l.records, (unsigned long long)l.bytes);
    return 0;
}
