/* Memory of suspended fibers' stacks; see stacks.c. */
#ifndef GYRE_STACKS_H
#define GYRE_STACKS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Returns the unused pages of the stacks at these addresses to the kernel. Requires fibers
 * suspended shortly below the address, with few frames: nothing is in use below it, nor between the
 * ends of the virtual machine's stack. Skips addresses in no mapping, or in one larger than a
 * stack. Sorts the addresses.
 *
 * machine_bytes, vm_bytes: the sizes of both parts of a stack; Ruby adds up to a page.
 */
void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t machine_bytes, size_t vm_bytes);

#endif
