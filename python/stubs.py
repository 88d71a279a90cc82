# SPDX-License-Identifier: Apache-2.0
"""What a type checker sees of what is made at run time: the functions and constants of the C library, and the
enums and records that the package makes of C's. Written at each build, from the declarations that cffi has read."""

import ast
import pathlib

from cffi import model

PACKAGE = pathlib.Path(__file__).parent / "muster"
HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Written by python/stubs.py.\n"
MUSTER = """from typing import Any, Callable, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

class _FFI:
    NULL: Any
    errno: int
    def new(self, cdecl: Any, init: Any = ...) -> Any: ...
    def new_handle(self, x: Any) -> Any: ...
    def from_handle(self, x: Any) -> Any: ...
    def cast(self, cdecl: Any, source: Any) -> Any: ...
    def string(self, cdata: Any, maxlen: int = ...) -> bytes: ...
    def unpack(self, cdata: Any, length: int) -> Any: ...
    def buffer(self, cdata: Any, size: int = ...) -> Any: ...
    def from_buffer(self, cdecl: Any, python_buffer: Any = ..., require_writable: bool = ...) -> Any: ...
    def memmove(self, dest: Any, src: Any, n: int) -> None: ...
    def typeof(self, cdecl: Any) -> Any: ...
    def sizeof(self, cdecl: Any) -> int: ...
    def getctype(self, cdecl: Any, replace_with: str = ...) -> str: ...
    def addressof(self, cdata: Any, *fields: Any) -> Any: ...
    def gc(self, cdata: Any, destructor: Any, size: int = ...) -> Any: ...
    def release(self, cdata: Any) -> None: ...
    def callback(self, cdecl: Any, python_callable: Any = ..., error: Any = ..., onerror: Any = ...) -> Any: ...
    def def_extern(self, name: str = ..., error: Any = ..., onerror: Any = ...) -> Callable[[_F], _F]: ...

ffi: _FFI

def make(
    gate: int, kind: int, name: Any, data: bytes, number: int, generation: int, owned: bool, timeout: Any, /
) -> Any: ...
def make_with(name_of: Any, milliseconds: Any, finish: Any, /) -> None: ...
"""


def python_type(kind):
    """Of a value that C returns; a pointer or a structure is cffi's own object."""
    if isinstance(kind, model.VoidType):
        return "None"
    if isinstance(kind, model.EnumType):
        return "int"
    if isinstance(kind, model.PrimitiveType):
        if kind.name in ("_Bool", "bool"):
            return "bool"
        return "float" if kind.is_float_type() else "bytes" if kind.is_char_type() else "int"
    return "Any"


def library(declarations):
    """The lines of the class whose only object is `lib`."""
    for name, (kind, _) in sorted(declarations.items()):
        what, _, name = name.partition(" ")
        if what == "function":
            types = ", ".join(f"_{i}: {python_type(arg)}" for i, arg in enumerate(kind.args))
            yield f"    def {name}(self{', ' * bool(types)}{types}, /) -> {python_type(kind.result)}: ..."
        elif what == "extern_python":
            yield f"    {name}: Any"
        elif what in ("macro", "constant", "variable"):
            yield f"    {name}: int"
        elif what == "enum" or isinstance(kind, model.EnumType):
            yield from (f"    {element}: int" for element in kind.enumerators)


def made(package):
    """[(function, name, C's name)] of the enums and records that the package makes, and the literals of its
    constants that say what is left out of them and what stands for none."""
    calls, constants = [("enum_of", "Status", "muster_status")], {}  # of _errors.py, which is below _c.py
    for path in sorted(package.glob("**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("enum_of", "record_of"):
                names = [one.value for one in node.args[:2] if isinstance(one, ast.Constant)]
                calls.append((node.func.id, *names))
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                name = getattr(node.target if isinstance(node, ast.AnnAssign) else node.targets[0], "id", "")
                if name in ("NOTHING", "HIDDEN", "NO_NEWS"):
                    kept = node.value.keys if isinstance(node.value, ast.Dict) else node.value.elts
                    constants[name] = [ast.literal_eval(one) for one in kept]
    return [call for call in calls if len(call) == 3], constants


def enum_lines(name, kind):
    shared = shared_prefix(kind.enumerators)
    yield f"class {name}(enum.IntEnum):"
    yield from (f"    {c[len(shared):]} = {value}" for c, value in zip(kind.enumerators, kind.enumvalues))


def shared_prefix(names):
    """As _c.enum_of takes it."""
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last)) if a != b), len(first))
    return first[:same].rpartition("_")[0] + "_"


def record_lines(name, c_name, kind, enums, constants):
    left_out = set(constants["HIDDEN"][2:]) | {field for struct, field in constants.get("NO_NEWS", ()) if struct == c_name}
    yield "@dataclasses.dataclass(frozen=True)"
    yield f"class {name}:"
    for field, type_ in zip(kind.fldnames, kind.fldtypes):
        if field in left_out:
            continue
        python = python_type(type_)
        if isinstance(type_, model.EnumType):
            python = enums.get(f"enum {type_.name}", "int")
        elif isinstance(type_, model.ArrayType):
            python = "str"
        elif isinstance(type_, model.PointerType):
            python = "Optional[str]"
        elif field.endswith("_ms"):
            python = "float"
        if field in constants["NOTHING"] or (c_name, field) in constants["NOTHING"]:
            python = f"Optional[{python}]"
        yield f"    {field.removesuffix('_ms')}: {python}"


def write(ffi, folder):
    """folder/_muster.pyi and folder/_types.pyi, of what `ffi` has read."""
    declarations = ffi._parser._declarations
    muster = HEAD + MUSTER + "\nclass _Lib:\n" + "\n".join(dict.fromkeys(library(declarations))) + "\n\nlib: _Lib\n"
    calls, constants = made(PACKAGE)
    enums = {c_name: name for call, name, c_name in calls if call == "enum_of"}
    lines = [HEAD + "import dataclasses\nimport enum\nfrom typing import Optional\n"]
    for call, name, c_name in calls:
        kind = (declarations.get(c_name) or declarations[f"typedef {c_name}"])[0]
        lines += enum_lines(name, kind) if call == "enum_of" else record_lines(name, c_name, kind, enums, constants)
        lines.append("")
    (folder / "_muster.pyi").write_text(muster, encoding="utf-8")
    (folder / "_types.pyi").write_text("\n".join(lines), encoding="utf-8")
