# frozen_string_literal: true

# Requires Ruby's Logger, which is a gem since Ruby 4.0 and missing under a Gemfile without it.

begin
  require "logger"
rescue LoadError => error
  raise LoadError, "gyre: the gem logger is missing (#{error.message}): `gem install logger`, or put `gem \"logger\"` into the Gemfile"
end
