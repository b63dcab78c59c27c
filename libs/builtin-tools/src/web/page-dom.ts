/** The part of the DOM that reading a page needs; the compiler's whole `dom` library would make browser globals look real. */
export interface PageElement {
  readonly tagName: string;
  readonly textContent: string | null;
  readonly innerHTML: string;
  getAttribute(name: string): string | null;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
  remove(): void;
  querySelector(selector: string): PageElement | null;
  /** Not iterable in every DOM: use Array.from. */
  querySelectorAll(selector: string): ArrayLike<PageElement>;
}

/** A parsed page. */
export interface PageDocument {
  readonly body: PageElement | null;
  readonly documentElement: PageElement | null;
  querySelector(selector: string): PageElement | null;
  querySelectorAll(selector: string): Iterable<PageElement>;
}
