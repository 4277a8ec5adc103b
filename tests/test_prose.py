"""How the code is written, as far as it can be held without taste: `python tests/test_prose.py FILE ...` lists lines.

A step a statement, a condition an `if`, a loop where something is built, and objects that are whole when they are made.
"""

import ast
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
MOST_ARGUMENTS = 8  # Of a constructor, without `self`.
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OWNERS = ("self", "cls")
# Names of objects of other packages that are made first and set afterwards: options, protocol buffers, converters.
SET_AFTERWARDS = ("options", "request", "converter", "graph", "faiss_index")
# Attributes of Keras, of Python's loggers, warnings and interpreter, and of TensorFlow, which have no other way.
OF_OTHERS = {
    "trainable",
    "dtype_policy",
    "quantization_config",
    "mode",
    "propagate",
    "msg",
    "args",
    "formatwarning",
    "excepthook",
    "_gradient_function",
    "_seed",
    "_rng",
}
# What is best as it is: public signatures, and a function that takes the place of another one.
EXCEPTIONS = {
    "keras_bert/layers/transformer.py": "a constructor with 9 arguments",
    "keras_bert/text/preprocessor.py": "a constructor with 10 arguments",
    "keras_bert/exporting/export.py": "an attribute set from outside: text_model.predict",
    "keras_bert/exporting/fused_layers.py": "an attribute set from outside: layer.call",
    "keras_bert/runs/fit_evaluation.py": "an attribute set from outside: labeled.labels",  # A property, of a copy.
}


def unrelated_values(tree):
    """Several values to several names. A swap is one step, and so is one expression of several things."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Tuple)
            and isinstance(node.value, ast.Tuple)
        ):
            targets = {ast.unparse(target) for target in node.targets[0].elts}
            values = {ast.unparse(value) for value in node.value.elts}
            if targets != values and not _is_one_expression(node.value.elts):
                yield node.lineno, "several values to several names"


def _is_one_expression(values):
    """Whether values differ in names and numbers alone, as in `f(x), f(y)`."""
    if not all(isinstance(value, ast.Call | ast.Subscript | ast.BinOp) for value in values):
        return False
    shapes = set()
    for value in values:
        nodes = [type(node).__name__ for node in ast.walk(value)]
        shapes.add(" ".join(nodes))
    return len(shapes) == 1


def used_conditional_expressions(tree):
    """Conditional expressions that are called, indexed, asked for an attribute, or inside of others."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            inner = [node.func]
        elif isinstance(node, ast.Subscript | ast.Attribute):
            inner = [node.value]
        elif isinstance(node, ast.IfExp):
            inner = [node.body, node.orelse, node.test]
        else:
            inner = []
        if any(isinstance(child, ast.IfExp) for child in inner):
            yield node.lineno, "a conditional expression that is called, indexed or nested"


def nested_comprehensions(tree):
    """Comprehensions with two `for`, or with another one inside."""
    for node in ast.walk(tree):
        if not isinstance(node, COMPREHENSIONS):
            continue
        if len(node.generators) > 1:
            yield node.lineno, "a comprehension with two `for`"
        elif any(isinstance(child, COMPREHENSIONS) for child in ast.walk(node) if child is not node):
            yield node.lineno, "a comprehension with another one inside"


def times_conditions(tree):
    """Lists and strings that are there if a condition holds: `[x] * is_there`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            is_sequence = isinstance(node.left, ast.List | ast.Tuple | ast.JoinedStr)
            is_text = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str)
            is_condition = isinstance(node.right, ast.Compare | ast.BoolOp)
            is_condition |= isinstance(node.right, ast.UnaryOp) and isinstance(node.right.op, ast.Not)
            is_condition |= isinstance(node.right, ast.Call) and ast.unparse(node.right.func) == "bool"
            if (is_sequence or is_text) and is_condition:
                yield node.lineno, "a sequence times a condition"


def wide_constructors(tree):
    """Constructors with more arguments than a reader keeps in mind."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if len(arguments) - 1 > MOST_ARGUMENTS:
                yield node.lineno, f"a constructor with {len(arguments) - 1} arguments"


def set_from_outside(tree):
    """Attributes that are set on another object than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        for target in targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    owner = ast.unparse(part.value).split(".")[0].split("[")[0]
                    if owner not in OWNERS + SET_AFTERWARDS and part.attr not in OF_OTHERS:
                        yield node.lineno, f"an attribute set from outside: {ast.unparse(part)}"


RULES = [
    unrelated_values,
    used_conditional_expressions,
    nested_comprehensions,
    times_conditions,
    wide_constructors,
    set_from_outside,
]
# Tests and benchmarks set what users set, such as `bert.labels`.
SET_AS_USERS_DO = ("tests", "benchmarks")


def violations(source):
    """Returns lines of Python code and what is wrong with them."""
    tree = ast.parse(source)
    found = []
    for rule in RULES:
        found.extend(rule(tree))
    return sorted(found)


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ("own, dev = dev_file or train_file, {name: dev}", 1),
        ("self.config, self.model = config, model", 1),
        ("first, second = second, first", 0),
        ("query, key = project(x, 0), project(x, 1)", 0),
        ("head, tail = sequence", 0),
        ("(A if large else B)(x)", 1),
        ("names = (a if large else b)[0]", 1),
        ("x = 1 if a else 2 if b else 3", 1),
        ("x = 1 if a else 2", 0),
        ("[x for row in rows for x in row]", 1),
        ("[[2 * x for x in row] for row in rows]", 1),
        ("[2 * x for x in rows]", 0),
        ("parts + ['cut'] * (n > 3)", 1),
        ("[0] * length", 0),
        ("'s' * (n != 1)", 1),
        ("class A:\n    def __init__(self, a, b, c, d, e, f, g, h, i):\n        pass", 1),
        ("model.metadata = metadata", 1),
        ("self.model.x = 1", 0),
        ("options.enabled = True", 0),
    ],
)
def test_rules(source, number):
    assert len(violations(source)) == number


def listed(path):
    """Returns the violations of a file, or of all files of a folder, as lines."""
    files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    lines = []
    for file in files:
        name = file.resolve().relative_to(ROOT).as_posix()
        for line, wrong in violations(file.read_text(encoding="utf-8")):
            is_set = wrong.startswith("an attribute set from outside")
            if is_set and name.startswith(SET_AS_USERS_DO):
                continue
            if EXCEPTIONS.get(name) != wrong:
                lines.append(f"{file}:{line}: {wrong}\n")
    return lines


@pytest.mark.parametrize("folder", ["keras_bert", "pipelines", "research", "tests", "benchmarks"])
def test_prose(folder):
    assert listed(ROOT / folder) == []


def test_exceptions_are_needed():
    for name, wrong in EXCEPTIONS.items():
        found = violations((ROOT / name).read_text(encoding="utf-8"))
        assert wrong in [text for _, text in found], name


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.writelines(listed(pathlib.Path(argument)))
