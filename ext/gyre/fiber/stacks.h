/* Memory of suspended fibers' stacks; see stacks.c. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Returns these stacks' unused pages to the kernel. The fibers must be suspended shortly below the
 * address, with few frames: nothing else is in use. Skips addresses outside a mapping, or in one
 * larger than a stack. Sorts the addresses.
 *
 * machine_bytes, vm_bytes: sizes of a stack's two parts; Ruby adds up to a page. */
void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t machine_bytes, size_t vm_bytes);

/* Does so for the current fiber below its present frame; its stack begins shortly above the
 * address. */
void gyre_stack_discard(uintptr_t address, size_t machine_bytes);
