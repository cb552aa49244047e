"""Asks CUDA's driver for its first GPU and prints name, bytes of memory and compute capability as JSON.

A program of its own, run without site packages by `demo.backend.machine_probe`. It ends with an error where the driver
does not answer.
"""

import ctypes
import json
import sys

driver = ctypes.CDLL("libcuda.so.1")
device, name, size = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_size_t()
major, minor = ctypes.c_int(), ctypes.c_int()
errors = (
    driver.cuInit(0),
    driver.cuDeviceGet(ctypes.byref(device), 0),
    driver.cuDeviceGetName(name, len(name), device),
    driver.cuDeviceTotalMem_v2(ctypes.byref(size), device),
    driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device),
    driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device),
)
if any(errors):
    sys.exit(1)
print(json.dumps([name.value.decode(), size.value, major.value, minor.value]))
