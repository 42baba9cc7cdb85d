/* Tracks an acknowledged client's record numbers, in total and in each sink (log_hub.h). */
#include "log/log_hub.h"

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
  *mark = (struct gyre_log_mark){.sink = sink, .turn = UINT64_MAX};
  return mark;
}

bool gyre_log_session_may(const struct gyre_log_session *session, uint64_t sequence) {
  const uint64_t jump = UINT64_C(1) << 48;
  uint64_t last = session->received;
  if (sequence <= last || sequence - last <= jump) return true;
  for (size_t i = 0; i < session->marks_count; i++) {
    if (session->marks[i].last > last) last = session->marks[i].last;
  }
  return sequence <= last || sequence - last <= jump;
}

uint64_t gyre_log_session_durable(const struct gyre_log_session *session) {
  uint64_t durable = session->received;
  for (size_t i = 0; i < session->marks_count; i++) {
    const struct gyre_log_mark *const mark = &session->marks[i];
    if (mark->last > mark->stored && mark->stored < durable) durable = mark->stored;
  }
  return durable;
}
