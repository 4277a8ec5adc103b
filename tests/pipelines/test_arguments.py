"""Flags as the fields of a dataclass."""

import dataclasses
import typing

import pytest
from absl import flags

from pipelines.arguments import CommandArguments, flag, help_page, parse, parse_some

DOCUMENT = "Trains.\n\n    python -m pipelines.train --model=bert --sizes=1\n\nWith `--model=small`, it is fast."


class Shared(CommandArguments):
    wording: typing.ClassVar = {"start": "none"}

    model: str = flag(None, "Model; default: {start}.", section="model", required=True)
    names: list[str] = flag(("a",), "Names {of} something.")


class Arguments(Shared):
    wording: typing.ClassVar = {"start": "the teacher"}

    sizes: list[int] = flag(None, "Sizes.", section="data", least=1)
    rates: list[float] = flag((0.5, 1), "Rates.")
    share: float = flag(0.25, "Share.", least=0, most=1)
    casing: str = flag("lower", "Casing.", values=["lower", "upper"])
    phase: list[str] = flag(None, "Phases.", repeatable=True)
    fast: bool = flag(True, "Whether it is fast.")
    length: int = flag(8, "Length.", least=3)
    learning_rate: float = flag(1e-3, "Rate.")
    unlabeled: str = flag(None, "Texts.", needs="casing=upper or phase, which has texts")
    patience: int = flag(1, "Patience.", excludes=("length", "fast, which ends early"))


@dataclasses.dataclass(frozen=True)
class Settings:
    share: float = 0.0
    fast: bool = False
    other: int = 7


def test_defaults():
    default = parse(DOCUMENT, Arguments, ["--model=m"])
    assert default.sizes is None
    assert default.rates == [0.5, 1.0]
    assert default.names == ["a"]
    assert default.phase is None
    assert default.share == 0.25
    assert default.casing == "lower"
    assert default.fast is True
    assert default.positional == ()


@pytest.fixture
def given(tmp_path):
    """The arguments of a command line with a file of flags, which has a byte order mark."""
    (tmp_path / "flags.txt").write_text("\ufeff--sizes=1,2\n", encoding="utf-8")
    line = ["--model=m", f"--flagfile={tmp_path}/flags.txt", "text", "--nofast"]
    return parse(DOCUMENT, Arguments, [*line, "--phase=a,b", "--phase=c", "--verbose"])


def test_values(given):
    assert given.model == "m"
    assert given.sizes == [1, 2]
    assert given.phase == ["a,b", "c"]
    assert given.fast is False
    assert given.positional == ("text",)


def test_numbers():
    """Of another base, and of more digits than a float holds."""
    number = 10**400
    arguments = parse(DOCUMENT, Arguments, ["--model=m", "--length=0x10", f"--sizes={number}"])
    assert arguments.length == 16
    assert arguments.sizes == [number]


def test_the_flags_to_store(given):
    """Those that are given, but `--verbose`."""
    lines = given.flagfile.splitlines()
    assert lines == ["--sizes=1,2", "--phase=a,b", "--phase=c", "--nofast", "--model=m"]


def test_settings_of_the_same_names_are_filled(given):
    assert given.fill(Settings, share=0.75) == Settings(0.75, False)


def test_flags_of_some_cases_only(given):
    given.only(False, "with a cat", "rates")  # It is not given.
    with pytest.raises(ValueError, match="--sizes: only with a cat. Received: --sizes=1,2"):
        given.only(False, "with a cat", "rates", "sizes")


MISTAKES = """
--sizes=1 -> --model is required: Model; default: the teacher. Example: --model=small. See --help
--model= -> --model is required: Model
--model=m --sizes=1.5 -> --sizes must be an integer of at least 1, or several separated by commas. Received: --sizes=1.5
--model=m --sizes=2,0 -> --sizes must be an integer of at least 1, or several separated by commas. Received: --sizes=2,0
--model=m --rates=0.1,nan -> --rates must be a finite number, or several separated by commas. Received: --rates=0.1,nan
--model=m --share=nan -> --share must be a number from 0 to 1. Received: --share=nan
--model=m --share=2 -> --share must be a number from 0 to 1. Received: --share=2
--model=m --casing=none -> --casing must be one of lower, upper. Received: --casing=none
--model=m --casing=uper -> --casing must be one of lower, upper. Received: --casing=uper. Did you mean upper?
--model=m --fast=maybe -> --fast must be true or false. Received: --fast=maybe
--model=m --length=0 -> --length must be an integer of at least 3. Received: --length=0
--model=m --lr=1 -> Unknown flag --lr. Did you mean --learning_rate?
--model=m --num_labels=2 -> Unknown flag --num_labels. The classes are those of the labels in the data
--model=m --modle=n -> Unknown flag --modle. Did you mean --model?
--flagfile=none.txt -> Unable to open flagfile: [Errno 2] No such file or directory: 'none.txt'
--model=m --unlabeled=a -> --unlabeled: only with --casing=upper or --phase, which has texts. Received: --unlabeled=a
--model=m --patience=2 -> --patience: not with --length. Received: both
--model=m --length= --patience=2 -> --length must be an integer of at least 3. Received: --length=
"""


@pytest.mark.parametrize("line", MISTAKES.strip().splitlines())
def test_mistakes(line):
    given, message = line.split(" -> ")
    with pytest.raises((ValueError, flags.Error)) as error:
        parse(DOCUMENT, Arguments, given.split()).check_conditions()
    assert str(error.value).startswith(message)


def test_a_mistake_in_some_flags():
    """What is parsed before the class is known."""
    with pytest.raises(ValueError, match="^--fast"):
        parse_some(Arguments, ["--fast=maybe"], "fast")


@pytest.mark.parametrize(
    "given",
    ["--casing=upper --unlabeled=a", "--phase=b --unlabeled=a", "--length=4 --nofast"],
)
def test_conditions_that_hold(given):
    parse(DOCUMENT, Arguments, ["--model=m", *given.split()]).check_conditions()


def test_help():
    """The command's own flags come first, in sections."""
    page = help_page(DOCUMENT, Arguments, "keras-bert ")
    assert "    keras-bert train --model=bert --sizes=1\n" in page
    lines = page.partition("data:\n")[2].splitlines()
    firsts = [line.split()[0] for line in lines if line.startswith("  --") or line.endswith(":")]
    assert firsts == [
        "--sizes=A,B,...",
        "--rates=A,B,...",
        "--share=X",
        "--casing=NAME",
        "--phase=TEXT",
        "--[no]fast",
        "--length=N",
        "--learning_rate=X",
        "--unlabeled=TEXT",
        "--patience=N",
        "model:",
        "--model=TEXT",
        "--names=A,B,...",
        "other:",
        "--[no]verbose",
        "--plugins=TEXT",
        "--flagfile=FILE",
    ]
    assert "  --model=TEXT                  Model; default: the teacher. Required." in lines
    assert "  --casing=NAME                 Casing. One of lower, upper. Default: lower." in lines
    assert "  --names=A,B,...               Names {of} something. Default: a." in lines
