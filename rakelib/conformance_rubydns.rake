# frozen_string_literal: true

# RubyDNS's own tests, unchanged, on Gyre: those of a folder with its repository at 2.1, which its
# gem does not contain. The first run installs sus and covered in tmp/conformance.
require "rbconfig"

namespace :conformance do
  desc "Run RubyDNS's own tests on Gyre (a folder with its repository, version 2.1)"
  task :rubydns, [:folder] => :compile do |_, arguments|
    folder = arguments[:folder] or abort "name the folder: rake \"conformance:rubydns[FOLDER]\""
    gems = File.join(GyreBuild.root, "tmp", "conformance", "rubydns-gems")
    environment = GyreSuite.unbundled.merge("GEM_HOME" => gems, "GEM_PATH" => nil)
    unless Dir.exist?(gems)
      sh(environment, RbConfig.ruby, "-S", "gem", "install", "--no-document", "--install-dir", gems, "sus:0.38.0", "covered:0.28.0")
    end
    on_gyre = environment.merge("RUBYOPT" => "-W0 -I#{File.join(GyreBuild.root, "lib")} -rgyre/dns/rubydns")
    sh(on_gyre, RbConfig.ruby, File.join(gems, "bin", "sus"), *Dir["test/rubydns/*.rb", base: folder].sort, chdir: folder)
  end
end
