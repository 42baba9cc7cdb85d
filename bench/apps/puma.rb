# frozen_string_literal: true

# Puma's settings for bench/http: five threads (its usual default), no worker processes, and
# connections that are never closed for having served many requests, as with the other servers.

threads 5, 5
workers 0
max_keep_alive 1_000_000_000
persistent_timeout 300
