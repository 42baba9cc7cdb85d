/* Returns memory of fibers' stacks to the kernel (stacks.c). */
#pragma once

#include "feature.h"

/* Returns unused pages of stacks to the kernel. `addresses` has an address in each stack; the
 * stack's fiber must be suspended a few frames below that. Skips an address outside of any mapping,
 * or in a mapping that is larger than a stack. Sorts the addresses.
 *
 * machine_bytes, vm_bytes: sizes of a stack's two parts; its mapping may be a page larger. */
void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t machine_bytes, size_t vm_bytes);

/* Like gyre_stacks_discard, but for the current fiber, below its present frame. Its stack begins
 * shortly above `address`. */
void gyre_stack_discard(uintptr_t address, size_t machine_bytes);
