"""Streams, events, graphs and pinned memory of the stand-in; work on streams is done as late as it may be."""

import os

import numpy as np

_current = []
allocators = []


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
        return self.stream is None or self.stream.ran >= self.upto


class Graph:
    """What a stream captured."""

    def __init__(self, work):
        self.work = work

    def launch(self, stream=None):
        stream = stream or get_current_stream()
        for work in self.work:
            stream.enqueue(work)


class Stream:
    """A queue; the default stream's work is done at once."""

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.is_null, self.non_blocking = null, non_blocking
        self.queue, self.issued, self.ran, self.captured = [], 0, 0, None
        self.ptr = 0 if null else id(self)

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
            self.ran += 1
            self.queue.pop(0)()

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
            raise RuntimeError("cudaErrorStreamCaptureUnsupported: the legacy stream cannot be captured")
        self.captured = []

    def end_capture(self):
        graph, self.captured = Graph(self.captured), None
        return graph

    @property
    def done(self):
        return not self.queue

    def __enter__(self):
        _current.append(self)
        return self

    def __exit__(self, *args):
        _current.pop()

    def use(self):
        _current.append(self)
        return self


Stream.null = Stream(null=True)


def get_current_stream(device_id=-1):
    return _current[-1] if _current else Stream.null


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

    attributes = {"MultiProcessorCount": 2, "MaxSharedMemoryPerBlockOptin": 232448}
    compute_capability = "90"
    mem_info = (int(os.environ.get("TWIN_MEMORY", 1 << 32)), int(os.environ.get("TWIN_MEMORY", 1 << 32)))

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
