"""Machines as sysfs shows them: trees of files of real multi-node machines."""


def as_list(cpus):
    """Numbers as the kernel writes them: 0-3,8."""
    runs = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def tree(root, nodes, caches, line, memory_only=()):
    """A sysfs: nodes maps a number to its cores, each a tuple of SMT siblings.

    Caches are (level, type, size, cores that share one), numbered by the kernel as index0, index1, ...
    Here the first two cores of each node have them: those of one processor are read, and files cost time.
    """
    system = root / "devices" / "system"
    for number, cores in nodes.items():
        write(system / f"node/node{number}/cpulist", as_list(cpu for core in cores for cpu in core))
        for i, core in enumerate(cores):
            for cpu in core:
                write(system / f"cpu/cpu{cpu}/topology/thread_siblings_list", as_list(core))
                write(
                    system / f"cpu/cpu{cpu}/topology/core_siblings_list",
                    as_list(c for core in cores for c in core),
                )
                for k, (level, kind, size, share) in enumerate(caches if i < 2 else ()):
                    first = i - i % share
                    sharers = as_list(c for core in cores[first : first + share] for c in core)
                    facts = {
                        "level": level,
                        "type": kind,
                        "size": size,
                        "coherency_line_size": line,
                    }
                    for name, text in (facts | {"shared_cpu_list": sharers}).items():
                        write(system / f"cpu/cpu{cpu}/cache/index{k}" / name, text)
                write(system / f"cpu/cpu{cpu}/cache/uevent", "")
    for number in memory_only:
        write(system / f"node/node{number}/cpulist", "")
    every = as_list(cpu for cores in nodes.values() for core in cores for cpu in core)
    for name, text in {"online": every, "present": every, "isolated": ""}.items():
        write(system / "cpu" / name, text)
    for name, text in {
        "online": as_list([*nodes, *memory_only]),
        "has_cpu": as_list(nodes),
        "possible": "0-255",
    }.items():
        write(system / "node" / name, text)
    return root


LEVEL_1 = [(1, "Data", "32K", 1), (1, "Instruction", "32K", 1)]


def one_node(root):
    """A virtual machine of two cores on a Sapphire Rapids Xeon, as this project's: the host's whole L3."""
    caches = [(1, "Data", "48K", 1), (1, "Instruction", "64K", 1), (2, "Unified", "2048K", 1)]
    return tree(root, {0: [(0,), (1,)]}, [*caches, (3, "Unified", "491520K", 2)], 64)


def xeon_2_nodes(root, interleaved=False):
    """Two Xeon Gold 6148: 20 cores each, hyper-threads after all cores; node by node, or in turn as Dell's BIOS."""
    first = (lambda k, i: 2 * i + k) if interleaved else (lambda k, i: 20 * k + i)
    nodes = {k: [(first(k, i), 40 + first(k, i)) for i in range(20)] for k in range(2)}
    return tree(
        root, nodes, [*LEVEL_1, (2, "Unified", "1024K", 1), (3, "Unified", "28160K", 20)], 64
    )


def xeon_4_nodes(root, smt=False):
    """Four Xeon E5-4620, as in the paper: 8 cores each, numbered node by node, SMT off unless asked."""
    nodes = {
        k: [(8 * k + i, 32 + 8 * k + i) if smt else (8 * k + i,) for i in range(8)]
        for k in range(4)
    }
    return tree(root, nodes, [*LEVEL_1, (2, "Unified", "256K", 1), (3, "Unified", "16384K", 8)], 64)


def power9(root, cores=20, smt=4):
    """Two POWER9 of SMT4: nodes 0 and 8, four threads of a core in sequence, GPUs as nodes 252-255 without cpus.

    With SMT off (`ppc64_cpu --smt=off`, as in the paper) the first thread of each core keeps its number: 0, 4, 8, ...
    """
    first = {8 * k: range(4 * cores * k, 4 * cores * (k + 1), 4) for k in range(2)}
    nodes = {
        number: [tuple(range(cpu, cpu + smt)) for cpu in cpus] for number, cpus in first.items()
    }
    caches = [*LEVEL_1, (2, "Unified", "512K", 2), (3, "Unified", "10240K", 2)]
    return tree(root, nodes, caches, 128, memory_only=(252, 253, 254, 255))


EVERY = range(4096)
