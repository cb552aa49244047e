"""Pages of these tests store in a folder of their own, one for each file of tests."""

from collections.abc import Iterator

import pytest

from demo.store.history import FOLDER_VARIABLE


@pytest.fixture(autouse=True, scope="module")
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as changes:
        changes.setenv(FOLDER_VARIABLE, str(tmp_path_factory.mktemp("data")))
        yield
