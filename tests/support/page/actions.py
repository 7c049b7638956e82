"""What the tests of the page do again and again."""

from playwright.async_api import Locator, Page, expect

from support.page.town import PARTITION, Town


async def opened(page: Page, town: Town, where: str = "") -> None:
    """The page shows a view, and is live."""
    await page.goto(town.address + where)
    await expect(page.locator("#link")).to_have_text("live")


def tree(page: Page, partition: str = PARTITION) -> Locator:
    """The queues of a partition."""
    return page.get_by_role("tree", name=f"Queues of {partition}", exact=True)


def row(page: Page, path: str, partition: str = PARTITION) -> Locator:
    """One queue."""
    return tree(page, partition).locator(f'[data-path="{path}"]')


async def fits(page: Page) -> bool:
    """Whether nothing is wider than the screen."""
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(await page.evaluate(wide))


async def brightness(page: Page) -> int:
    """How bright the ground of the page is, from 0 to 765."""
    script = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)"
    return sum(map(int, await page.evaluate(script)))
