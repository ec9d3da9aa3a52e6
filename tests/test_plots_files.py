"""Figures and pages as files: one rule for what may be replaced, and one sentence where the disk refuses."""

import errno
import os

import pytest
from typer.testing import CliRunner

from bench_stores import make_store
from trimtab.cli.main import app
from trimtab.errors import TrimtabError
from trimtab.study import bench, outputs
from trimtab.study.report import Report, write, write_report

FOREIGN = b"my own notes\n"


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    root = tmp_path_factory.mktemp("results")
    store = make_store(root / "store", dataset="<b>set</b>")
    bench.run_plan(bench.make_plan([store.path], ["mcp"], seeds=2, weights=["fixed", "auto"]), root / "out", workers=1)
    return bench.read_results(root / "out")


@pytest.fixture(scope="module", autouse=True)
def drawn_once(results):
    """These tests are about files; the figures of a page, which are always the same, are drawn for the first one."""
    sections = write.sections_of(results)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "sections_of", lambda _: sections)
        yield


def plot(results, target, *options):
    return CliRunner().invoke(app, ["plot", "along", str(results.folder), "-o", str(target), *options])


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_figure_of_trimtabs_own_is_replaced_and_another_file_is_not(results, tmp_path, suffix):
    target = tmp_path / f"along.{suffix}"
    for _ in range(2):
        assert plot(results, target).exit_code == 0
    target.write_bytes(FOREIGN)
    refused = plot(results, target)
    assert str(refused.exception) == (
        f"{target} exists and was not written by trimtab; choose another name, or replace it with --overwrite."
    )
    assert target.read_bytes() == FOREIGN
    assert plot(results, target, "--overwrite").exit_code == 0
    assert outputs.MARK.encode() in target.read_bytes()


def test_a_report_of_trimtabs_own_is_replaced_and_another_file_is_not(results, tmp_path):
    for _ in range(2):
        paths = write_report(results, tmp_path)
    assert [path.name for path in paths] == ["report.md", "report.tex", "report.html"]
    paths[2].write_bytes(FOREIGN)
    paths[0].unlink()
    with pytest.raises(TrimtabError, match=r"report\.html exists and was not written by trimtab"):
        write_report(results, tmp_path)
    assert not paths[0].exists(), "nothing is written if one of the files is refused"
    write_report(results, tmp_path, overwrite=True)
    assert all(outputs.MARK.encode() in path.read_bytes() for path in paths)


def test_the_mark_is_found_in_a_large_file(tmp_path):
    file = tmp_path / "large.pdf"
    file.write_bytes(bytes(3 * outputs.EDGE) + outputs.made_by().encode())
    outputs.refuse_foreign(file)
    file.write_bytes(bytes(3 * outputs.EDGE))
    with pytest.raises(TrimtabError, match="not written by trimtab"):
        outputs.refuse_foreign(file)


def test_a_folder_where_a_file_is_meant(results, tmp_path):
    (tmp_path / "along.png").mkdir()
    done = plot(results, tmp_path / "along.png", "--overwrite")
    assert str(done.exception) == f"{tmp_path / 'along.png'} is a folder; give the name of a file."


def test_a_file_where_a_folder_is_meant(results, tmp_path):
    (tmp_path / "file").write_bytes(FOREIGN)
    for done in (
        plot(results, tmp_path / "file" / "along.png"),
        CliRunner().invoke(app, ["report", str(results.folder), "-o", str(tmp_path / "file")]),
    ):
        assert isinstance(done.exception, TrimtabError)
        assert str(tmp_path / "file") in str(done.exception)


@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_refuses_is_one_sentence(results, tmp_path, monkeypatch, problem):
    def refuse(*_):
        raise OSError(problem, os.strerror(problem))

    monkeypatch.setattr(outputs, "write_together", refuse)
    for done in (
        plot(results, tmp_path / "along.png"),
        CliRunner().invoke(app, ["report", str(results.folder), "-o", str(tmp_path)]),
    ):
        assert isinstance(done.exception, TrimtabError)
        assert f"cannot be written: {os.strerror(problem)}; choose another place." in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_an_option_that_a_figure_does_not_take_is_refused(results, tmp_path):
    done = plot(results, tmp_path / "along.png", "--projection", "tsne")
    assert str(done.exception) == "The figure 'along' takes no --projection; leave it out."
    assert plot(results, tmp_path / "along.png", "-m", "mcp").exception is not None


@pytest.mark.parametrize("verb", ["plot", "demo"])
def test_the_help_shows_examples(verb):
    assert f"\n    trimtab {verb}" in CliRunner().invoke(app, [verb, "--help"]).output


def test_the_page_has_contents_date_version_and_figures_beside_their_tables(results):
    import trimtab

    page = Report(results).page()
    places = {place: page.index(f'<section id="{place}">') for place in ("s1", "s1-1", "s2", "s2-1")}
    assert all(page.index(f'href="#{place}"') < places["s1"] for place in places)
    assert f"by trimtab {trimtab.__version__}." in page
    assert f"finished {results.records[0].finished[:10]}" in page
    assert f"{len(results.records)} records in {results.folder}" in page
    assert "prefers-color-scheme: dark" in page
    section = page[places["s1-1"] : places["s2"]]
    marks = [("quality</h4>", 1), ("data:image/png", 3), ("cost</h4>", 1)]
    assert [section.count(mark) for mark, _ in marks] == [count for _, count in marks]
    assert [section.index(mark) for mark, _ in marks] == sorted(section.index(mark) for mark, _ in marks)
    assert "weights auto" in page[places["s2"] :]


def test_the_page_escapes_what_it_shows(results):
    page = Report(results).page()
    assert "<b>set" not in page
    assert "&lt;b&gt;set" in page


def test_a_report_shows_itself_in_a_notebook(results):
    shown = Report(results)._repr_html_()
    assert shown.count("<table>") == 2 * 3
    assert "data:image/png" in shown
    assert "<html" not in shown
    assert "<b>set" not in shown
