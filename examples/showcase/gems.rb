# frozen_string_literal: true

# The showcase's gems (bin/demo): Rack for its config.ru, Logger (a part of Ruby until 4.0) for its log, and
# Rake to compile the extension.
gem "logger"
gem "rack", "~> 3.1"
gem "rake", "~> 13.0"
