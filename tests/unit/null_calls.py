# SPDX-License-Identifier: Apache-2.0
"""A call of every exported function with NULL for its handles, made from the public headers at each
build, so that a new function cannot be forgotten.

usage: null_calls.py SOURCE SYMBOLS OUT.c     SOURCE: the project; SYMBOLS: the exported names
"""

import pathlib
import re
import sys

FUNCTION = re.compile(r"([^;{}]*?)\b(muster_\w+)\(((?:[^()]|\([^()]*\))*)\);")


def functions(texts):
    """{name: (type, [parameter])} of the headers' functions, without their typedefs."""
    plain = re.sub(r"^#.*$", "", "\n".join(texts), flags=re.M)
    plain = re.sub(r"typedef[^;{]*;", ";", re.sub(r"\s+", " ", plain))
    found = {}
    for kind, name, parameters in FUNCTION.findall(plain):
        words = [one.strip() for one in parameters.split(",")]
        found[name] = (kind.strip(), [] if words == ["void"] else words)
    return found


def argument(parameter, handles, full):
    """What is passed: nothing anywhere, or, `full`, room wherever no handle is meant."""
    kind = re.sub(r"\b\w+$", "", parameter).strip()
    base = re.sub(r"\bconst\b|\s|\*", "", kind)
    if "*" not in kind:
        if base in handles.functions:
            return "NULL"
        if parameter == "size_t count":
            return "1"
        return f"({kind}){{0}}" if kind.startswith("struct") else f"({kind})0"
    if not full or is_handle(parameter, handles) or "_options" in kind or base in handles.functions:
        return "NULL"
    return "err" if "muster_error" in kind else "room"


def is_handle(parameter, handles):
    """A pointer to what only the library can look into; but not the place for one."""
    base = re.sub(r"\bconst\b|\s|\*|\b\w+$", "", parameter)
    return base in handles.types and (parameter.count("*") == 1 or "*const *" in parameter)


class Handles:
    def __init__(self, texts):
        text = "\n".join(texts)
        self.types = set(re.findall(r"typedef struct \w+ (muster_\w+);", text))
        self.functions = set(re.findall(r"typedef [\w ]+?\b(muster_\w+)\(", text))


def code(texts, names):
    handles = Handles(texts)
    declared = functions(texts)
    missing = sorted(set(names) ^ set(declared))
    if missing:
        sys.exit(f"declared and not exported, or the other way: {missing}")
    lines, rows = ["/* Made by null_calls.py. */", '#include "null_calls.h"', ""], []
    for name in names:
        kind, parameters = declared[name]
        handle = any(is_handle(one, handles) for one in parameters)
        if not handle and (kind != "muster_status" or not parameters):
            continue
        takes_err = handle and any("muster_error" in one for one in parameters)
        lines.append(f"static int call_{name}(int full, void *room, struct muster_error *err)\n{{")
        for full in (True, False):
            if full and not handle:
                lines.append("    if (!full)")
                continue
            call = f"{name}({', '.join(argument(one, handles, full) for one in parameters)})"
            lines.append("    if (full) {" if full else "    } else {" if handle else "    {")
            if kind == "muster_status":
                lines.append(f"        return (int){call};")
            else:
                lines.append(f"        (void){call};")
        lines.append("    }\n    (void)room;\n    (void)err;\n    return MUSTER_EINVAL;\n}\n")
        rows.append(f'    {{"{name}", call_{name}, {int(takes_err)}}},')
    return "\n".join([*lines, "const struct null_call null_calls[] = {", *rows, "    {0, 0, 0}};", ""])


def main(source, symbols, out):
    sys.path.insert(0, str(pathlib.Path(source) / "python"))
    import cdef

    texts = [cdef.declarations(text) for text in cdef.read(pathlib.Path(source) / "include")]
    names = pathlib.Path(symbols).read_text(encoding="utf-8").split()
    pathlib.Path(out).write_text(code(texts, names), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
