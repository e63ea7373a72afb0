"""The time left of a whole command, from what was measured."""

import pytest

from nesbs.cli.progress import Lines
from nesbs.runs.plan import PlannedStage
from nesbs.runs.time_left import TimeLeft


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


STAGES = [
    PlannedStage("supernet", 2, True),
    PlannedStage("members", 10, False),
    PlannedStage("uniform", 6, False),
    PlannedStage("evaluation", 1, False),
]


def test_stages_alike_are_counted_and_others_are_named(clock):
    left = TimeLeft(clock)
    left.plan(STAGES)
    left.start("members", 10)
    assert left.seconds() is None  # nothing is measured yet
    clock.now = 3.0
    left.advance(1)
    assert (left.seconds(), left.uncounted) == (9 * 3 + 6 * 3, ["evaluation"])
    clock.now = 12.0
    left.advance(5)  # it became quicker: the later half of the units counts
    assert left.seconds() == pytest.approx((5 + 6) * 9 / 4)
    left.start("uniform", 6)
    assert left.seconds() is None  # at its very start: as a stage's own time
    clock.now = 14.0
    left.advance(1)
    assert left.seconds() == pytest.approx(5 * 2)
    left.start("evaluation", 1)
    assert left.uncounted == []


def test_a_resumed_stage_is_measured_from_its_second_report(clock):
    left = TimeLeft(clock)
    left.plan(STAGES[1:2])
    left.start("members", 10)
    clock.now = 4.0
    left.advance(7)  # six epochs of an earlier process, one of this
    assert left.seconds() is None
    clock.now = 9.0
    left.advance(8)
    assert left.seconds() == pytest.approx(2 * 5)


def test_slow_first_steps_are_forgotten(clock):
    left = TimeLeft(clock)
    left.plan([PlannedStage("posterior", 400, False)])
    left.start("posterior", 400)
    for step in range(1, 61):
        clock.now += 5.0 if step <= 20 else 0.1  # the first estimate what the others are compared with
        left.advance(step)
    assert left.seconds() == pytest.approx(340 * 0.1)


def test_seeds_take_as_long_as_the_one_before(clock):
    left = TimeLeft(clock)
    for seeds_left in (2, 1):
        left.plan((), seeds_left)
        left.start("supernet", 2)
        clock.now += 10.0
        left.advance(1)
        if seeds_left == 2:
            assert left.seconds() is None  # nobody knows what else a seed takes
            clock.now += 90.0
    assert left.seconds() == pytest.approx(90 + 100)


def test_where_nobody_said_what_comes_nothing_is_said(clock):
    left = TimeLeft(clock)
    left.start("attack", 2)
    clock.now = 1.0
    left.advance(1)
    assert left.seconds() is None


def test_lines_say_it(monkeypatch, clock, capsys):
    monkeypatch.setattr("nesbs.cli.progress.LINE_EVERY", 0.0)
    lines = Lines()
    lines._time_left = TimeLeft(clock)
    lines.plan(STAGES)
    lines.start("members", 10)
    clock.now = 30.0
    lines.advance(1, "loss 0.5")
    lines.plan(STAGES[:3])
    lines.start("uniform", 6)
    clock.now = 40.0
    lines.advance(1, "loss 0.4")
    told = capsys.readouterr().err
    assert "members: 1 of 10, loss 0.5, 7 min 30 s left, then evaluation\n" in told
    assert "uniform: 1 of 6, loss 0.4, 50.0 s left in all\n" in told
