"""Mutations of Python source: one small change each, made in the syntax tree.

    arithmetic     a + b -> a - b      comparison   a < b -> a <= b, a >= b     boolean     a and b -> a or b
    call           min(x) -> max(x)    condition    if a -> if not a            constant    1 -> 0, .05 -> .1
    operator       not a -> a          return       return x -> return -x       slice       x[1:] -> x[:]

What no test can notice, or none should, stays: docstrings, annotations, decorators, declarations of types, the messages
of exceptions, and ``strict=`` of zip, which raises on an error in the program only.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

IMPORT_TIME: Final = "<module>"
"""Function of what runs when the module is imported."""


@dataclass(frozen=True)
class Site:
    """One possible mutation: `new` in the place of a child of `parent`.

    Attributes:
        operator: Kind of the mutation.
        function: Qualified name of the outermost function that it changes; `IMPORT_TIME` outside of functions.
        line: Line of the change.
        parent: Node whose child is replaced.
        name: Field of that child.
        index: Position in the field if it is a list; else None.
        new: Replacement.
        shown: Node to show before and after.
    """

    operator: str
    function: str
    line: int
    parent: ast.AST
    name: str
    index: int | None
    new: Any
    shown: ast.AST

    def swap(self) -> Site:
        """Put the replacement into the tree, and return the mutation that undoes it."""
        field = getattr(self.parent, self.name)
        old = field if self.index is None else field[self.index]
        if self.index is None:
            setattr(self.parent, self.name, self.new)
        else:
            field[self.index] = self.new
        return replace(self, new=old)


_BINARY: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_BOUNDARY: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
_OPPOSITE: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.GtE,
    ast.LtE: ast.Gt,
    ast.Gt: ast.LtE,
    ast.GtE: ast.Lt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SWAPPED: Final = {
    "min": "max",
    "max": "min",
    "sum": "max",
    "mean": "sum",
    "any": "all",
    "all": "any",
    "maximum": "minimum",
    "minimum": "maximum",
    "argmax": "argmin",
    "logical_or": "logical_and",
    "logical_and": "logical_or",
    "floor": "ceil",
    "ceil": "floor",
    "isnan": "isfinite",
    "zeros": "ones",
    "ones": "zeros",
    "zeros_like": "ones_like",
    "cumsum": "cumprod",
    "sorted": "list",
    "unique": "sort",
    "startswith": "endswith",
    "removeprefix": "removesuffix",
    "removesuffix": "removeprefix",
    "partition": "rpartition",
}
_UNWRAPPED: Final = frozenset({"abs", "sqrt", "exp", "log", "round", "reversed"})
_NEGATIONS: Final[dict[str, type[ast.unaryop]]] = {
    "bool": ast.Not,
    "Bools": ast.Invert,
    "float": ast.USub,
    "int": ast.USub,
}


def sites(tree: ast.Module) -> list[Site]:
    """List every mutation of a module, in a fixed order."""
    return list(_Walk().statements(tree, "body", IMPORT_TIME))


class _Walk:
    """Walk over a module that knows in which function it is, and what is not to be changed."""

    def statements(self, parent: ast.AST, name: str, function: str) -> Iterator[Site]:
        """Mutations in the statements of a block."""
        self.function = function
        for index, node in enumerate(getattr(parent, name)):
            self.function = function
            yield from self.statement(parent, name, index, node)

    def statement(self, parent: ast.AST, name: str, index: int, node: ast.AST) -> Iterator[Site]:
        function = self.function
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(
            node,
            (ast.Raise, ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal),
        ):
            return
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        if isinstance(node, ast.ClassDef):
            prefix = "" if function == IMPORT_TIME else f"{function}."
            for sub in node.body:
                self.function = IMPORT_TIME
                self.prefix = f"{prefix}{node.name}."
                yield from self.statement(node, "body", node.body.index(sub), sub)
            self.prefix = ""
            return
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from self.defaults(node)
            if function == IMPORT_TIME:
                function = getattr(self, "prefix", "") + node.name
            outer = getattr(self, "returns", "")
            self.returns = ast.unparse(node.returns) if node.returns else ""
            yield from self.statements(node, "body", function)
            self.returns = outer
            return
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and self.is_declaration(node):
            return
        yield from self.expressions(node)
        for block in ("body", "orelse", "finalbody"):
            if isinstance(getattr(node, block, None), list):
                yield from self.statements(node, block, function)
        for handler in getattr(node, "handlers", ()):
            yield from self.statements(handler, "body", function)

    def is_declaration(self, node: ast.Assign | ast.AnnAssign) -> bool:
        """True for a type alias, and for ``__all__``."""
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        text = ast.unparse(node.value) if node.value else ""
        return ast.unparse(target) == "__all__" or text.startswith(("NDArray[", "Literal[", "Mapping[", "TypeVar("))

    def defaults(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Site]:
        """Mutations of the default arguments, which are made at import time."""
        function = self.function
        for name in ("defaults", "kw_defaults"):
            for index, value in enumerate(getattr(node.args, name)):
                if value is not None:
                    for one in self.expression(node.args, name, index, value):
                        yield replace(one, operator=f"default argument: {one.operator}")
        self.function = function

    def expressions(self, node: ast.AST) -> Iterator[Site]:
        """Mutations in the expressions of one statement, without its blocks."""
        if isinstance(node, (ast.If, ast.While)) and not _has_a_negation(node.test):
            yield self.site("negated condition", node, "test", None, _not(node.test), node)
        if isinstance(node, ast.Return) and node.value is not None:
            if (negation := _NEGATIONS.get(self.returns)) and not isinstance(node.value, ast.Constant):
                negated = ast.UnaryOp(negation(), node.value)
                yield self.site("negated return value", node, "value", None, negated, node)
            elif self.returns.endswith("| None") and not _is_none(node.value):
                yield self.site(
                    "return value dropped",
                    node,
                    "value",
                    None,
                    ast.Constant(None),
                    node,
                )
        if isinstance(node, ast.AugAssign) and (other := _BINARY.get(type(node.op))):
            yield self.site("arithmetic", node, "op", None, other(), node)
        for name, value in ast.iter_fields(node):
            if name in (
                "body",
                "orelse",
                "finalbody",
                "handlers",
                "annotation",
                "returns",
                "decorator_list",
            ):
                continue
            yield from self.children(node, name, value)

    def children(self, node: ast.AST, name: str, value: Any) -> Iterator[Site]:
        """Mutations in the expressions of one field."""
        if isinstance(value, ast.AST):
            yield from self.expression(node, name, None, value)
        elif isinstance(value, list):
            for index, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from self.expression(node, name, index, one)

    def expression(self, parent: ast.AST, name: str, index: int | None, node: ast.AST) -> Iterator[Site]:
        """Mutations of one expression, and of those in it."""

        def at(operator: str, new: ast.AST, shown: ast.AST | None = None) -> Site:
            return self.site(operator, parent, name, index, new, shown or parent)

        self.line = getattr(node, "lineno", self.line if hasattr(self, "line") else 0)
        match node:
            case ast.Constant():
                if (new := self.constant(parent, name, node)) is not None:
                    yield at("constant", new)
            case ast.BinOp():
                if (other := _BINARY.get(type(node.op))) and not _is_text(node):
                    yield self.site("arithmetic", node, "op", None, other(), node)
            case ast.BoolOp():
                other = ast.Or if isinstance(node.op, ast.And) else ast.And
                yield self.site("boolean", node, "op", None, other(), node)
            case ast.UnaryOp():
                if not isinstance(node.operand, ast.Constant):
                    yield at("operator dropped", node.operand)
            case ast.Compare():
                for position, op in enumerate(node.ops):
                    if boundary := _BOUNDARY.get(type(op)):
                        yield self.site("comparison bound", node, "ops", position, boundary(), node)
                    yield self.site(
                        "comparison negated",
                        node,
                        "ops",
                        position,
                        _OPPOSITE[type(op)](),
                        node,
                    )
            case ast.IfExp() if not _has_a_negation(node.test):
                yield self.site("negated condition", node, "test", None, _not(node.test), node)
            case ast.Call():
                yield from self.call(parent, name, index, node)
            case ast.comprehension():
                for position, test in enumerate(node.ifs):
                    if _has_a_negation(test):
                        continue
                    yield self.site("negated condition", node, "ifs", position, _not(test), node)
            case ast.Slice():
                for bound in ("lower", "upper", "step"):
                    if (end := getattr(node, bound)) is not None:
                        yield self.site("slice", node, bound, None, None, parent)
                        if bound != "step" and not isinstance(end, ast.Constant):
                            more = ast.BinOp(end, ast.Add(), ast.Constant(1))
                            yield self.site("off by one", node, bound, None, more, parent)
        if isinstance(node, (ast.FormattedValue,)):
            yield from self.expression(node, "value", None, node.value)
            return
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) in (
            "NDArray",
            "Literal",
            "Final",
        ):
            return
        for field, value in ast.iter_fields(node):
            if isinstance(node, ast.Call) and field in ("args", "keywords") and self.is_message(node):
                continue
            if field == "annotation" or (isinstance(node, ast.keyword) and node.arg == "strict"):
                continue
            yield from self.children(node, field, value)

    def call(self, parent: ast.AST, name: str, index: int | None, node: ast.Call) -> Iterator[Site]:
        """Mutations of a call: another function, no function, a range with another end."""
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if other := _SWAPPED.get(called):
            field, new = ("attr", other) if isinstance(node.func, ast.Attribute) else ("id", other)
            yield self.site("call swapped", node.func, field, None, new, node)
        if called in _UNWRAPPED and len(node.args) == 1 and not node.keywords:
            yield self.site("call dropped", parent, name, index, node.args[0], parent)
        if called in ("range", "arange", "repeat") and node.args and not isinstance(node.args[-1], ast.Constant):
            last = len(node.args) - 1
            more = ast.BinOp(node.args[last], ast.Add(), ast.Constant(1))
            yield self.site("off by one", node, "args", last, more, node)

    def is_message(self, node: ast.Call) -> bool:
        """True for a call whose arguments are text for people only, or types."""
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        return called in ("cast", "TypeVar") or called.endswith(("Error", "Warning"))

    def constant(self, parent: ast.AST, name: str, node: ast.Constant) -> ast.Constant | None:
        """Another constant of the same type; None where it should not change."""
        value = node.value
        if isinstance(value, bool):
            return ast.Constant(not value)
        if isinstance(value, int):
            return ast.Constant(value + 1 if value != 1 else 0)
        if isinstance(value, float):
            return ast.Constant(2 * value if value else 1.0)
        if isinstance(value, str) and value:
            is_key = isinstance(parent, (ast.Compare, ast.Dict)) or (
                isinstance(parent, ast.Subscript) and name == "slice"
            )
            is_key |= isinstance(parent, ast.Call) and getattr(parent.func, "attr", "") in (
                "get",
                "missing",
                "ints",
                "floats",
            )
            # The values of a dictionary are as often text for people; its keys are not.
            return ast.Constant(value + "_") if is_key and name != "values" else None
        return None

    def site(
        self,
        operator: str,
        parent: ast.AST,
        name: str,
        index: int | None,
        new: Any,
        shown: ast.AST,
    ) -> Site:
        line = getattr(parent, "lineno", getattr(shown, "lineno", getattr(self, "line", 0)))
        if isinstance(new, ast.AST) and isinstance(parent, ast.AST):
            old = getattr(parent, name)
            old = old if index is None else old[index]
            line = getattr(old, "lineno", line)
            if isinstance(new, (ast.expr, ast.slice)) and hasattr(old, "lineno"):
                ast.copy_location(new, old)
        return Site(operator, self.function, line, parent, name, index, new, shown)


def _not(node: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), node)


def _has_a_negation(test: ast.expr) -> bool:
    """True for a comparison or a `not`, whose own mutation negates it."""
    return isinstance(test, ast.UnaryOp) or (isinstance(test, ast.Compare) and len(test.ops) == 1)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.BinOp) -> bool:
    """True for a sum with a text in it."""
    return any(
        isinstance(side, (ast.JoinedStr, ast.Constant)) and not isinstance(getattr(side, "value", ""), (int, float))
        for side in (node.left, node.right)
    )


def shown(node: ast.AST) -> str:
    """A node as one line of source."""
    ast.fix_missing_locations(node)
    text = f"if {ast.unparse(node.test)}" if isinstance(node, ast.If) else ast.unparse(node)
    return " ".join(text.split())


def cut(one: str, other: str, *, width: int = 120) -> tuple[str, str]:
    """Two lines, cut to the part around their first difference."""
    same = next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        0,
    )
    begin = max(0, min(same - width // 2, max(len(one), len(other)) - width))
    ends = [(text[begin : begin + width], "..." if len(text) > begin + width else "") for text in (one, other)]
    before, after = (f"{'...' if begin else ''}{text}{dots}" for text, dots in ends)
    return before, after
