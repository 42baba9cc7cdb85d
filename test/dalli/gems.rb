# frozen_string_literal: true

# Dalli, with which Gyre::Memcached shares caches, in a bundle of its own: no other test may have it
# loaded. bin/setup installs it. Dalli 5 needs Ruby 3.3.
gem "dalli", RUBY_VERSION >= "3.3" ? "~> 5.3" : "~> 3.2.8"
gem "connection_pool"
gem "logger"
gem "minitest", "~> 5.16"
gem "rack", "~> 3.0"
gem "rack-session", "~> 2.0"
