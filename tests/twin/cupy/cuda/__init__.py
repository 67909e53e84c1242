"""Streams, events, graphs and pinned memory of the stand-in; work on streams is done as late as it may be."""

import os
import threading
import time
import weakref

import numpy as np

PENDING = object()  # what work returns that cannot be done yet, since it waits for another device
allocators = []
_here = (
    threading.local()
)  # each thread has its current streams and, as if it had a device of its own, a default one
_streams = weakref.WeakValueDictionary()


class Event:
    """A place in a stream's queue."""

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.stream, self.upto = None, 0

    def record(self, stream=None):
        self.stream = stream or get_current_stream()
        self.upto = self.stream.issued

    def synchronize(self):
        if self.stream is not None:
            self.stream.run(self.upto)

    @property
    def done(self):
        """Whether it has been reached; while it is not, a device goes on: by one piece of work for each question."""
        if self.stream is not None and self.stream.ran < self.upto:
            self.stream.step()
        return self.stream is None or self.stream.ran >= self.upto


class Graph:
    """What a stream captured."""

    def __init__(self, work):
        self.work = work

    def launch(self, stream=None):
        stream = stream or get_current_stream()
        for work in self.work:
            stream.enqueue(work.again() if hasattr(work, "again") else work)


class Stream:
    """A queue; the default stream's work is done at once."""

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.is_null, self.non_blocking = null, non_blocking
        self.queue, self.issued, self.ran, self.captured, self.capture = [], 0, 0, None, None
        self.ptr = 0 if null else id(self)
        _streams[self.ptr] = self

    def enqueue(self, work):
        if self.captured is not None:
            self.captured.append(work)
            return
        self.queue.append(work)
        self.issued += 1
        if self.is_null or os.environ.get("TWIN_EAGER") == "1":
            self.run(self.issued)

    def run(self, upto):
        while self.ran < upto:
            if not self.step():
                time.sleep(0.0005)

    def step(self):
        """Do the next piece of work; False where it waits for another device."""
        work = self.queue.pop(0)
        self.ran += 1
        if work() is PENDING:
            self.queue.insert(0, work)
            self.ran -= 1
            return False
        return True

    def synchronize(self):
        if self.captured is not None:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported: synchronize during capture")
        self.run(self.issued)

    def wait_event(self, event):
        stream, upto = event.stream, event.upto
        self.enqueue(lambda: stream.run(upto))

    def record(self, event=None):
        event = event or Event()
        event.record(self)
        return event

    def begin_capture(self, mode=None):
        if self.is_null:
            raise RuntimeError(
                "cudaErrorStreamCaptureUnsupported: the legacy stream cannot be captured"
            )
        self.captured, self.capture = [], object()

    def end_capture(self):
        graph, self.captured = Graph(self.captured), None
        return graph

    def is_capturing(self):
        return self.captured is not None

    @property
    def done(self):
        if self.queue:
            self.step()
        return not self.queue

    def __enter__(self):
        _stack().append(self)
        return self

    def __exit__(self, *args):
        _stack().pop()

    def use(self):
        _stack().append(self)
        return self


Stream.null = Stream(null=True)


def _stack():
    if not hasattr(_here, "current"):
        _here.current = [Stream(null=True)]
    return _here.current


def get_current_stream(device_id=-1):
    return _stack()[-1]


def stream_at(ptr):
    """The stream of a pointer."""
    return _stack()[0] if ptr == 0 else _streams[ptr]


def wait_for_default_stream():
    """Operations on arrays are work of the current stream; as NumPy does them now, all before must be done."""
    stream = get_current_stream()
    if stream.captured is not None:
        raise RuntimeError("this operation cannot be captured by the stand-in; use kernels")
    stream.run(stream.issued)


def alloc_pinned_memory(size):
    return np.full(size, 0xEE, np.uint8)


def set_allocator(allocator=None):
    allocators.append(allocator)


def get_allocator():
    return allocators[-1] if allocators else None


def is_available():
    return True


def get_elapsed_time(start_event, end_event):
    return 1.0


class Device:
    """One small device."""

    def __init__(self, device=None):
        self.id = device or 0

    pci_bus_id = property(
        lambda self: os.environ.get("TWIN_PCI_BUS_ID", f"0000:{os.getpid():04X}:00.0")
    )
    attributes = {"MultiProcessorCount": 2, "MaxSharedMemoryPerBlockOptin": 232448}
    compute_capability = "90"
    mem_info = (
        int(os.environ.get("TWIN_MEMORY", 1 << 32)),
        int(os.environ.get("TWIN_MEMORY", 1 << 32)),
    )

    def synchronize(self):
        get_current_stream().synchronize()

    def use(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *args):
        pass


class driver:
    """cupy.cuda.driver."""

    @staticmethod
    def occupancyMaxActiveBlocksPerMultiprocessor(func, blockSize, dynamicSMemSize):
        """As many as threads, blocks and shared memory of an H100's multiprocessor allow; nothing here has registers."""
        from cupy._module import RawKernel

        if dynamicSMemSize > RawKernel.known[func].max_dynamic_shared_size_bytes:
            return 0
        return min(2048 // blockSize, 32, (228 << 10) // (dynamicSMemSize + 1024))


class runtime:
    """cupy.cuda.runtime."""

    class CUDARuntimeError(RuntimeError):
        pass

    @staticmethod
    def getDeviceCount():
        return int(os.environ.get("TWIN_DEVICES", 1))

    @staticmethod
    def driverGetVersion():
        return 13000

    @staticmethod
    def runtimeGetVersion():
        return 13000

    @staticmethod
    def hostRegister(address, size, flags):
        pass

    @staticmethod
    def hostUnregister(address):
        pass

    @staticmethod
    def memGetInfo():
        return Device.mem_info

    @staticmethod
    def getDeviceProperties(device):
        return {"name": b"stand-in on the CPU", "multiProcessorCount": 2}
