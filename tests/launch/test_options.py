"""Options of `daskglm cluster`: wrong ones are reported before anything starts."""

import pytest
from click.testing import CliRunner

from daskglm.cli import main
from daskglm.launch.options import WorkerOptions


def refused(*arguments):
    result = CliRunner().invoke(main, ["cluster", *map(str, arguments)])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["workers"], "give the scheduler's ADDRESS or --scheduler-file"),
        (["workers", "node1:8786"], "is no address"),
        (["workers", "tls://node1:8786"], "belong together"),
        (["workers", "--plan", "--memory", "lots"], "not a number of bytes"),
        (["local", "--workers", "0"], "Invalid value for '--workers'"),
        (["local", "--tls-dir", "/no/such/folder"], "does not exist"),
        (["ssh", "no-such-file"], "does not exist"),
        (["check"], "give the scheduler's ADDRESS or --scheduler-file"),
    ],
)
def test_wrong_arguments_are_told_before_anything_starts(arguments, message, monkeypatch):
    monkeypatch.delenv("DASK_SCHEDULER_ADDRESS", raising=False)
    result = CliRunner().invoke(main, ["cluster", *arguments])
    assert result.exit_code == 2, result.output
    assert message in " ".join(result.output.split())


def test_options_of_workers_are_passed_on_as_they_were_given():
    assert WorkerOptions(2, None, 10**9, "cuda").arguments() == [
        "--workers=2",
        "--memory=1000000000",
        "--device=cuda",
    ]


def test_the_host_of_the_scheduler_over_ssh(tmp_path):
    (tmp_path / "hosts").write_text("node1\n")
    for host in ("", " ", "-oProxyCommand=x", "a b"):
        assert "--scheduler-host" in refused("ssh", tmp_path / "hosts", "--scheduler-host", host)
