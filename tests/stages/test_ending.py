"""A stage that gets a signal ends its child processes and removes its temporary files."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from tests.running import ROOT

TWICE = """
import os, signal, sys, time
from pathlib import Path
from stages import run

def main():
    try:
        Path(sys.argv[1]).touch()
        time.sleep(100)
    finally:
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        Path(sys.argv[1]).unlink()

run(main)
"""
NOHUP = """
import os, signal
from stages import run
signal.signal(signal.SIGHUP, signal.SIG_IGN)

def main():
    os.kill(os.getpid(), signal.SIGHUP)
    print("goes on")

run(main)
"""


def started(*command, **environment):
    return subprocess.Popen([sys.executable, *command], cwd=ROOT, env=os.environ | environment)


def wait_for(file):
    until = time.monotonic() + 60
    while not file.exists():
        assert time.monotonic() < until
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM])
def test_a_second_signal_does_not_stop_the_cleanup(tmp_path, how):
    with started("-c", TWICE, str(tmp_path / "here")) as process:
        wait_for(tmp_path / "here")
        process.send_signal(how)
        assert process.wait(60) == 128 + how
    assert not (tmp_path / "here").exists()


def test_under_nohup_a_closed_terminal_does_not_end_it():
    done = subprocess.run([sys.executable, "-c", NOHUP], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"goes on\n")


def test_the_java_of_the_scorers_ends_too(tmp_path):
    java, pid = tmp_path / "bin/java", tmp_path / "pid"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho $$ > '{pid}.new'; mv '{pid}.new' '{pid}'; exec sleep 100\n")
    java.chmod(0o755)
    (tmp_path / "captions.json").write_text('[{"image_id": "1", "caption": "a man left"}]')
    (tmp_path / "references.json").write_text('{"1": ["a man has left"]}')
    files = [f"--{name}={tmp_path}/{name}.json" for name in ("captions", "references", "out")]
    with started("-m", "stages.score", *files, JAVA_HOME=str(tmp_path)) as process:
        wait_for(pid)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
    left = int(pid.read_text())
    with suppress(ProcessLookupError):
        os.kill(left, 0)
        os.kill(left, signal.SIGKILL)
        pytest.fail("the JVM lives on")
