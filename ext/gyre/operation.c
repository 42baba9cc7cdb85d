/*
 * An operation's memory (see backend.h). The loop has the books of those in flight (loop.c); whoever began one frees it when it has
 * ended, or leaves that to the loop by cancelling it.
 */
#include "loop.h"

#include <stdlib.h>
#include <string.h>

struct gyre_operation *gyre_operation_new(enum gyre_operation_kind kind, size_t length) {
  struct gyre_operation *operation = malloc(sizeof(*operation) + length);
  if (!operation) return NULL;
  memset(operation, 0, sizeof(*operation));
  operation->kind = kind;
  gyre_list_init(&operation->node);
  return operation;
}

void gyre_operation_free(struct gyre_operation *operation) {
  if (!operation->lost) free(operation);
}
