"""The ids of visitors."""

from demo.ui.jobs.supervisor import visitor_name


def test_new_visitors_have_ids_of_their_own_which_their_browser_keeps() -> None:
    one, two = visitor_name(None, "page 1"), visitor_name(None, "page 2")
    assert one != two and one == visitor_name("not an id", "page 1")
    assert visitor_name(one, "page 2") == one
