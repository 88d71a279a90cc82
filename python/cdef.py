# SPDX-License-Identifier: Apache-2.0
"""The public headers as cffi reads them: made at each build, so that it cannot drift from them.

usage: cdef.py INCLUDE OUT.c     INCLUDE: the folder that holds muster/muster.h
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
WRITTEN_IN_C = ("calls.h", "extra.c", "calls.c", "connections.c", "tasks.c", "direct_calls.c")
EXTRA = """
extern "Python" muster_status muster_python_call(muster_restart *, void *);
extern "Python" muster_status muster_python_callback(muster_restart *, void *);
muster_restart_callback *muster_python_function_address(void);
muster_restart_callback *muster_python_nothing_address(void);
muster_restart_callback *muster_python_hook_address(void);
void muster_python_left(void);
bool muster_python_told(void);
int muster_python_watch_start(void);
void muster_python_watch_stop(void);
int muster_python_connections_begin(void);
int muster_python_connections_shut_down(int64_t drain_ns);
char *getenv(const char *name);
extern "Python" void muster_python_key(void *, const struct muster_place *, char *, size_t);
extern "Python" uint32_t muster_python_filter(void *, uint32_t);
extern "Python" muster_status muster_python_assign(void *, struct muster_place *, size_t);
typedef void muster_python_log_fn(void *ctx, enum muster_level level, const char *line);
muster_python_log_fn *muster_python_log_address(void);
typedef void muster_python_crash_fn(void *ctx, const char *line);
muster_python_crash_fn *muster_python_crash_address(void);
extern "Python" void muster_python_call_ended(void *ctx, muster_call *call);
"""
TASKS = """
extern "Python" muster_status muster_python_task(muster_task *task, size_t function,
    const void *data, size_t size, uint32_t type, const struct muster_part *parts, size_t count);
extern "Python" void muster_python_drop(void *object);
muster_task_fn *muster_python_run_address(void);
muster_status muster_python_keep(muster_task *task, uintptr_t number);
uintptr_t muster_python_object(muster_task *task, size_t need);
muster_status muster_python_schedule(muster_cluster *cluster, const char *function,
    const struct muster_closure_options *options, const char *data, const uint32_t *sizes,
    uint32_t type, size_t count, int64_t timeout_ms, muster_closure **out, size_t *admitted,
    struct muster_error *err);
muster_status muster_python_schedule_one(muster_cluster *cluster, const char *function,
    const struct muster_closure_options *options, const char *data, size_t size, uint32_t type,
    int64_t timeout_ms, muster_closure **out, struct muster_error *err);
struct muster_python_value {
    const struct muster_part *parts;
    size_t count;
    const void *data;
    size_t size;
    uint32_t type;
};
muster_status muster_python_fetch(muster_closure *closure, int64_t timeout_ms,
    struct muster_python_value *out, struct muster_error *err);
bool muster_python_ended(muster_closure *closure);
bool muster_python_has_value(muster_closure *closure);
size_t muster_python_which_ended(muster_closure *const *closures, size_t count, uint32_t *places);
"""


class Unreadable(Exception):
    """A header has something in it that this script does not know how to leave out."""


def without_comments(text):
    pattern = r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/'
    return re.sub(pattern, lambda found: found[0] if found[0][0] == '"' else " ", text, flags=re.S)


def counts(condition):
    """Whether what stands under #if, #ifdef or #ifndef is C that cffi is to see."""
    if "__cplusplus" in condition:
        return False
    if re.fullmatch(r"ifndef MUSTER_\w+_H|if defined\(__GNUC__\)", condition):
        return True
    raise Unreadable(f"#{condition}")


def constant(words):
    """What cffi is told of a #define: that it is a number, which the compiler knows."""
    name, _, value = words.partition(" ")
    value = value.strip()
    if not value or "(" in name or value.startswith(("{", "__attribute__", '"')):
        return ""
    return f"#define {name} ..."


def declarations(text):
    """One header's declarations, its constants, and nothing else."""
    text = re.sub(r"\\\n", " ", without_comments(text))
    kept, conditions = [], []
    for line in text.splitlines():
        directive = re.match(r"\s*#\s*(\w+)\s*(.*?)\s*$", line)
        if not directive:
            if all(conditions):
                kept.append(line)
            continue
        kind, rest = directive.groups()
        if kind in ("if", "ifdef", "ifndef"):
            conditions.append(counts(f"{kind} {rest}"))
        elif kind == "else":
            conditions[-1] = not conditions[-1]
        elif kind == "endif":
            conditions.pop()
        elif kind == "define" and all(conditions):
            kept.append(constant(rest))
        elif kind not in ("define", "include", "pragma"):
            raise Unreadable(line)
    plain = re.sub(r"\bMUSTER_(API|MUST_USE)\b", "", "\n".join(kept))
    return re.sub(r"\n\s*\n+", "\n", plain).strip() + "\n"


def initial_values(text):
    """[(macro, struct)] of the macros that initialise options."""
    joined = re.sub(r"\\\n", " ", without_comments(text))
    pattern = r"#\s*define\s+(MUSTER_\w+_INIT)\s+\{.*?sizeof\((struct \w+)\)"
    return re.findall(pattern, joined)


def read(include, name="muster/muster.h", seen=None):
    """[text] of a header and of those it includes, each once, in the compiler's order."""
    seen = set() if seen is None else seen
    if name in seen:
        return []
    seen.add(name)
    text = (pathlib.Path(include) / name).read_text(encoding="utf-8")
    texts = []
    for other in re.findall(r'^\s*#\s*include\s+"(muster/\w+\.h)"', text, flags=re.M):
        texts += read(include, other, seen)
    return texts + [text]


def initialisers(texts):
    """(declarations, C) of functions that give the initial options as the headers have them."""
    found = [pair for text in texts for pair in initial_values(text)]
    heads = [f"{struct} {macro.lower()}(void)" for macro, struct in found]
    cdef = "".join(f"{head};\n" for head in heads)
    source = "".join(
        f"static {head}\n{{\n    return ({struct}){macro};\n}}\n"
        for head, (macro, struct) in zip(heads, found)
    )
    return cdef, source


def main(include, out):
    import cffi

    import stubs

    texts = read(include)
    cdef, source = initialisers(texts)
    written = [(HERE / name).read_text(encoding="utf-8") for name in WRITTEN_IN_C]
    whole = "".join(written).replace('#include "calls.h"\n', "")  # it stands before
    source = "#include <muster/muster.h>\n" + whole + source
    texts.append(written[0])
    ffi = cffi.FFI()
    ffi.cdef("".join(map(declarations, texts)) + cdef + EXTRA + TASKS)
    ffi.set_source("muster._muster", source)
    ffi.emit_c_code(out)
    stubs.write(ffi, pathlib.Path(out).parent)


if __name__ == "__main__":
    main(*sys.argv[1:])
