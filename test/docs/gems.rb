# frozen_string_literal: true

# What `rake docs` runs, as a bundle of its own (GYRE_BUNDLE=docs bin/bundle …).
gem "yard", "~> 0.9.37"
