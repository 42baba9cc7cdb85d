# frozen_string_literal: true

# What `rake lint` runs, as a bundle of its own (GYRE_BUNDLE=lint bin/bundle …): what it brings
# along does not choose which JSON the tests run on. One minor version, because a newer one has new
# opinions.
gem "rubocop", "~> 1.92.0"
