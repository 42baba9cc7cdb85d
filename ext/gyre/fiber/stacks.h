/* Memory of suspended fibers' stacks; see stacks.c. */
#ifndef GYRE_STACKS_H
#define GYRE_STACKS_H

#include <stddef.h>
#include <stdint.h>

/* Gives the kernel the pages below each address back, down to the end of the stack that it is in.
 * Only for stacks of fibers that do not run. An address in no mapping, or in one larger than a
 * stack, is left alone. Sorts the addresses.
 *
 * stack_bytes: the size of a stack; Ruby adds up to one page to what it was asked for. */
void gyre_stacks_discard(uintptr_t *addresses, size_t count, size_t stack_bytes);

#endif
