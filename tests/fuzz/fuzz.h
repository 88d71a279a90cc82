/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FUZZ_H
#define FUZZ_H

/* What a harness is: one function that is given bytes and must end well, whatever they are. What it
 * claims it says with MST_ASSERT. libFuzzer calls it with bytes of its own, main.c with the files
 * of a corpus. */

#include <stddef.h>
#include <stdint.h>

/* NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer looks for */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
