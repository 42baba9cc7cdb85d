/* Memory of suspended fibers' stacks; see stacks.c. */
#ifndef GYRE_STACKS_H
#define GYRE_STACKS_H

#include <stddef.h>
#include <stdint.h>

/* Gives the kernel back the unused pages of the stacks in which the addresses are. Only for fibers
 * that are suspended a little below the address, and have only a few frames: below it, and between
 * both ends of the virtual machine's stack, nothing is in use. An address in no mapping, or in one
 * larger than a stack, is left alone. Sorts the addresses.
 *
 * machine_bytes, vm_bytes: the sizes of both parts of a stack; Ruby adds up to one page to what it
 * was asked for. */
void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t machine_bytes, size_t vm_bytes);

#endif
