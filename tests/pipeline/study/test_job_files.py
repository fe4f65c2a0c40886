"""job.json and state.json whose keys are missing or of another type are refused by file and key."""

import json
import math

import pytest

from pipeline.io.errors import InputError
from pipeline.study import job
from pipeline.study.job import Job, Step

BAD = [..., None, -1, 2**70, math.nan, True, "\0", [], [1], {}, {"a": 1}]  # ...: the key is not there
STATE = {"state": "failed", "node": "n", "time": 1.5, "step": "train", "line": "error: x"}


def places(tree, at=()):
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*at, key)
        yield from places(value, (*at, key))


def edits(tree):
    for *parents, last in places(tree):
        for value in BAD:
            own = json.loads(json.dumps(tree))
            branch = own
            for key in parents:
                branch = branch[key]
            if value is ...:
                del branch[last]
            else:
                branch[last] = value
            yield ".".join(map(str, (*parents, last))), own


def harmless(path, tree, read):
    found = set()
    for key, own in edits(tree):
        path.write_text(json.dumps(own))
        if (said := refusal(read)) is None:
            found.add(key)
        else:
            assert str(path) in said
            assert key.rsplit(".", 1)[-1] in said or "folder" in said
    return found


def refusal(read):
    try:
        read()
    except InputError as error:
        return str(error)
    return None


def test_a_job_is_refused_by_its_key(tmp_path):
    Job(str(tmp_path), str(tmp_path), (Step("a", "true", ("out",)),), {"HOME": "/"}).write()
    tree = json.loads((tmp_path / job.JOB).read_text())
    assert job.read(tmp_path).steps[0].outs == ("out",)
    # without steps, outs or a variable there is less to do
    found = harmless(tmp_path / job.JOB, tree, lambda: job.read(tmp_path))
    assert found <= {"steps", "steps.0", "steps.0.outs", "steps.0.outs.0", "environment", "environment.HOME"}


def test_a_state_is_refused_by_its_key(tmp_path):
    assert job.state(tmp_path) == {}
    (tmp_path / job.STATE).write_text(json.dumps(STATE))
    assert job.state(tmp_path) == STATE
    found = harmless(tmp_path / job.STATE, STATE, lambda: job.state(tmp_path))
    assert found <= set(STATE)  # a missing key, and any number as time
    for text in ("", "[]", '{"state": "mad"}', '{"line": 1}', '{"state": "done", "state": "failed"}'):
        (tmp_path / job.STATE).write_text(text)
        with pytest.raises(InputError, match=r"state\.json"):
            job.state(tmp_path)
