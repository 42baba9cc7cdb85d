# frozen_string_literal: true

# Gyre::Log::Identity: an id that another client cannot use.

require "test_helper"
require "gyre/log/wire/identity"

class LogIdentityTest < Minitest::Test
  Identity = Gyre::Log::Identity

  def test_an_id_is_made_from_its_secret_and_proven_by_it
    one, two = Identity.fresh, Identity.fresh
    refute_equal one, two
    assert_match(/\A676c6f67\h{24}\z/, one.client_id)
    assert Identity.proven?(one.client_id, one.secret)
    refute Identity.proven?(one.client_id, two.secret)
    refute Identity.proven?(one.client_id, nil)
  end

  def test_the_way_from_a_secret_to_its_id_never_changes
    assert_equal "676c6f67#{Digest::SHA256.hexdigest("gyre log client #{"ab" * 16}")[0, 24]}", Identity.id_of("ab" * 16)
  end

  # Digest's own loading on first use fails in several threads at once (Ruby 3.1).
  def test_the_digest_is_loaded_before_threads_make_ids
    assert_equal "true\n", ruby("-e", 'require "gyre/log/client"; puts Digest.constants.include?(:SHA256)').out
  end

  def test_ids_of_older_clients_are_believed_and_have_no_secret
    assert Identity.proven?("0123456789abcdef" * 2, nil)
    refute Identity.proven?("0123456789abcdef" * 2, "ab" * 16)
  end

  def test_the_secret_is_not_shown
    identity = Identity.fresh
    refute_includes identity.inspect, identity.secret
  end
end
