import pytest

from tests.mutants.__main__ import AREAS

FAULTS = [fault for faults in AREAS.values() for fault in faults]


@pytest.mark.parametrize("fault", FAULTS, ids=[f"{fault.file}: {fault.what}" for fault in FAULTS])
def test_the_piece_of_every_fault_stands_in_its_file_once(fault):
    source = fault.applied()
    if fault.file.endswith(".py"):
        compile(source, fault.file, "exec")
