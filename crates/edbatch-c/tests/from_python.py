"""Runs a session through Python's ctypes: `from_python.py LIBRARY NETWORK`."""

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_float, c_int64, c_size_t, c_uint16, c_uint32
from ctypes import c_void_p

library = ctypes.CDLL(sys.argv[1])
library.edbatch_error_message.restype = c_char_p
library.edbatch_engine_free.argtypes = [c_void_p]
library.edbatch_session_free.argtypes = [c_void_p]
library.edbatch_session_call.argtypes = [
    c_void_p, c_uint16, POINTER(c_uint32), c_size_t, POINTER(c_int64), c_size_t, POINTER(c_int64),
]
library.edbatch_session_fetch.argtypes = [
    c_void_p, POINTER(c_int64), c_size_t, POINTER(c_float), c_size_t, POINTER(c_size_t),
]


def check(status):
    assert status == 0, (status, library.edbatch_error_message())


assert library.edbatch_abi_version() == 1
engine, session = c_void_p(), c_void_p()
check(library.edbatch_engine_open(sys.argv[2].encode(), None, byref(engine)))
check(library.edbatch_session_new(engine, ctypes.c_uint64(0), byref(session)))

# A clause from a rule, the initial `feature` and the initial `clause`.
clause, rows, values = c_int64(), (c_uint32 * 1)(3), (c_int64 * 2)(-2, -1)
check(library.edbatch_session_call(session, 0, rows, 1, values, 2, byref(clause)))
elements, needed = (c_float * 14)(), c_size_t()
status = library.edbatch_session_fetch(session, byref(clause), 1, elements, 14, byref(needed))
assert status == 7 and b"pending" in library.edbatch_error_message(), status
check(library.edbatch_session_run(session))
check(library.edbatch_session_fetch(session, byref(clause), 1, elements, 14, byref(needed)))
assert needed.value == 14 and all(-1 < x < 1 for x in elements) and any(elements), list(elements)
assert library.edbatch_engine_open(b"missing", None, byref(engine)) == 2
assert b"missing" in library.edbatch_error_message()

library.edbatch_session_free(session)
print("passed")
