/*
 * A client of acknowledged logging (see log_hub.h): how far its records have come, and how far each sink has them.
 */
#include "log_hub.h"

struct gyre_log_session *gyre_log_session_open(const char *client_id) {
  struct gyre_log_session *const session = calloc(1, sizeof(*session));
  if (!session) return NULL;
  session->references = 1;
  memcpy(session->client_id, client_id, GYRE_LOG_CLIENT_ID);
  return session;
}

void gyre_log_session_release(struct gyre_log_session *session) {
  if (!session || --session->references > 0) return;
  free(session->marks);
  free(session);
}

struct gyre_log_mark *gyre_log_session_mark(struct gyre_log_session *session, uint64_t sink) {
  for (size_t i = 0; i < session->marks_count; i++) {
    if (session->marks[i].sink == sink) return &session->marks[i];
  }
  struct gyre_log_mark *const marks = realloc(session->marks, (session->marks_count + 1) * sizeof(*marks));
  if (!marks) return NULL;
  session->marks = marks;
  struct gyre_log_mark *const mark = &marks[session->marks_count++];
  *mark = (struct gyre_log_mark){sink, 0, UINT64_MAX, 0};
  return mark;
}
