# SPDX-License-Identifier: BSD-2-Clause
"""Two threads that leak, each in its own function; needs no module outside the interpreter."""
import _thread
import time

main_kept = []
thread_kept = []


def leak_in_main():
    # Larger than what pymalloc serves.
    main_kept.append(bytearray(3000))


def leak_in_thread():
    thread_kept.append(bytearray(5000))


def in_thread():
    while True:
        time.sleep(0.05)
        leak_in_thread()


_thread.start_new_thread(in_thread, ())
print("ready", flush=True)
while True:
    leak_in_main()
    time.sleep(0.05)
