"""Certificates: made, checked, and refused if others can read the key."""

import os
import ssl

import pytest

from daskglm.launch import tls


def test_certificates_are_believed_by_ssl_and_kept_to_the_user(tmp_path):
    made = tls.make_certificates(tmp_path / "a", ["host.example", "10.0.0.1"])
    assert {path.stat().st_mode & 0o777 for path in made.values()} == {0o600}
    context = ssl.create_default_context(cafile=made["ca-file"])
    context.load_cert_chain(made["cert"], made["key"])
    assert context.cert_store_stats()["x509_ca"] == 1
    with pytest.raises(FileExistsError, match="exists already"):
        tls.make_certificates(tmp_path / "a")
    found = tls.settings(tmp_path / "a")
    assert found["distributed.comm.require-encryption"] is True
    assert found["distributed.comm.tls.worker.key"].endswith("/a/key.pem")
    assert tls.environment(tmp_path / "a")["DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION"] == "True"
    assert tls.settings(None) == {}
    made["key"].chmod(0o604)
    with pytest.raises(PermissionError, match="chmod 600"):
        tls.check_folder(tmp_path / "a")
    made["cert"].unlink()
    with pytest.raises(FileNotFoundError, match=r"lacks cert.pem: make them with"):
        tls.check_folder(tmp_path / "a")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o602, 0o644])
@pytest.mark.parametrize("link", [False, True])
def test_a_key_that_others_may_read_or_write_is_refused(mode, link, tmp_path):
    key = tls.make_certificates(tmp_path / "tls")["key"]
    if link:
        key = key.rename(tmp_path / "elsewhere")
        (tmp_path / "tls" / "key.pem").symlink_to(key)
        tls.check_folder(tmp_path / "tls")
    key.chmod(mode)
    with pytest.raises(PermissionError, match=f"mode {mode:o}.*chmod 600") as caught:
        tls.check_folder(tmp_path / "tls")
    assert ("leads to" in str(caught.value)) == link


def test_certificates_may_be_read_by_others_but_not_written(tmp_path):
    made = tls.make_certificates(tmp_path / "tls")
    made["cert"].chmod(0o644)
    made["ca-file"].chmod(0o644)
    tls.check_folder(tmp_path / "tls")
    made["ca-file"].chmod(0o664)
    with pytest.raises(PermissionError, match=r"ca\.pem can be written to by its group"):
        tls.check_folder(tmp_path / "tls")


def test_a_secret_of_kubernetes_is_given_by_the_group(tmp_path, monkeypatch):
    """There the files are root's, and the user of a pod reads them by its group."""
    made = tls.make_certificates(tmp_path / "tls")
    made["key"].chmod(0o440)
    if os.geteuid() != 0:
        pytest.skip("only root can make a file of root's")
    with pytest.raises(PermissionError):
        tls.check_folder(tmp_path / "tls")
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    tls.check_folder(tmp_path / "tls")
    made["key"].chmod(0o460)
    with pytest.raises(PermissionError, match="written to by its group"):
        tls.check_folder(tmp_path / "tls")
