"""Waiting for a cluster that does not come."""

from click.testing import CliRunner

from daskglm.cli import main


def test_check_gives_up_where_no_scheduler_writes_its_file(tmp_path):
    file = tmp_path / "scheduler.json"
    result = CliRunner().invoke(
        main, ["cluster", "check", "--scheduler-file", str(file), "--timeout", "1"]
    )
    assert result.exit_code == 1
    assert f"did not write its address to {file} within 1 s" in result.output
