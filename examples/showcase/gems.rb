# frozen_string_literal: true

# The gems of the showcase (bin/demo): Rack for its config.ru, Logger (part of Ruby until 4.0) for
# its log, Rake to compile the extension.
gem "logger"
gem "rack", "~> 3.1"
gem "rake", "~> 13.0"
