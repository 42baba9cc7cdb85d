/* Returns memory of fibers' stacks to the kernel (stacks.c). */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns these stacks' unused pages to the kernel. Each fiber must be suspended a few frames below
 * its address. Skips an address outside of any mapping, or in a mapping that is larger than a
 * stack. Sorts the addresses.
 *
 * machine_bytes, vm_bytes: sizes of a stack's two parts; Ruby adds up to a page. */
void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t machine_bytes, size_t vm_bytes);

/* Does the same for the current fiber, below its present frame. Its stack begins shortly above
 * `address`. */
void gyre_stack_discard(uintptr_t address, size_t machine_bytes);
