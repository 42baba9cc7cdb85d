# frozen_string_literal: true

# The showcase's gems (bin/demo): Rack for its config.ru, and Rake to compile the extension.
gem "rack", "~> 3.1"
gem "rake", "~> 13.0"
