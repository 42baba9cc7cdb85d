# frozen_string_literal: true

# Settings of Gyre for bench/rails: what Thruster does by default.

folder = ENV.fetch("FOLDER")
static "#{folder}/public", immutable: true
sendfile "#{folder}/storage"
compress
cache "64M"
