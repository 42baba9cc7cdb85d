# frozen_string_literal: true

# What config.ru loads.

require_relative "application"
Rails.application.initialize!
