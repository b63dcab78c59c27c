/** A browser without pages for tests: it keeps cookies by host and path, follows redirects, and says where its requests come from. */

interface Cookie {
  host: string;
  name: string;
  value: string;
  path: string;
  isStrict: boolean;
}

/** What a page is, for tests. */
export interface Visited {
  status: number;
  url: string;
  text: string;
  headers: Headers;
}

export class BrowserDouble {
  #cookies: Cookie[] = [];
  /** Origins of the pages that were shown, and whether they let forms name them. */
  readonly #hidden = new Map<string, boolean>();
  /** Addresses it was redirected to, in order. */
  readonly visited: string[] = [];

  /**
   * Opens an address as a link of `from` would and follows redirects, up to the first that `stopsAt` matches.
   * @param from origin of the page with the link; undefined: typed by the user
   */
  async open(
    address: string,
    options: { from?: string; stopsAt?: RegExp; method?: string; body?: string } = {},
  ): Promise<Visited> {
    let url = new URL(address);
    let { method = 'GET', body } = options;
    for (let hops = 0; hops < 30; hops += 1) {
      this.visited.push(url.href);
      const isCrossSite = options.from !== undefined && options.from !== url.origin;
      const cookie = this.cookieHeader(url, isCrossSite);
      const response = await fetch(url, {
        method,
        body,
        redirect: 'manual',
        headers: {
          accept: 'text/html',
          ...(cookie === '' ? {} : { cookie }),
          ...(body === undefined
            ? {}
            : { 'content-type': 'application/x-www-form-urlencoded', origin: this.#originOf(options.from) }),
          'sec-fetch-site': options.from === undefined ? 'none' : isCrossSite ? 'cross-site' : 'same-origin',
        },
      });
      this.#keep(url, response.headers.getSetCookie());
      const location = response.headers.get('location');
      this.#hidden.set(url.origin, response.headers.get('referrer-policy') === 'no-referrer');
      if (location === null || response.status < 300 || response.status >= 400)
        return { status: response.status, url: url.href, text: await response.text(), headers: response.headers };
      await response.body?.cancel();
      url = new URL(location, url);
      if (options.stopsAt?.test(url.href))
        return { status: response.status, url: url.href, text: '', headers: response.headers };
      method = 'GET';
      body = undefined;
    }
    throw new Error(`too many redirects, the last to ${url.href}`);
  }

  /** `Origin` of a form of a page. Browsers send `null` for pages with the policy `no-referrer` (Fetch Standard, section 3.2). */
  #originOf(from: string | undefined): string {
    return from === undefined || this.#hidden.get(from) ? 'null' : from;
  }

  /** Cookies of a request to an address. */
  cookieHeader(url: URL, isCrossSite = false): string {
    return this.#cookies
      .filter(
        ({ host, path, isStrict }) => host === url.host && url.pathname.startsWith(path) && !(isStrict && isCrossSite),
      )
      .map(({ name, value }) => `${name}=${value}`)
      .join('; ');
  }

  /** Value of a cookie; undefined if there is none. */
  cookie(name: RegExp): string | undefined {
    return this.#cookies.find((cookie) => name.test(cookie.name))?.value;
  }

  #keep({ host, pathname }: URL, lines: readonly string[]): void {
    for (const line of lines) {
      const [pair = '', ...attributes] = line.split(';').map((part) => part.trim());
      const [name = '', ...rest] = pair.split('=');
      const value = rest.join('=');
      const byName = new Map(
        attributes.map((attribute): [string, string] => {
          const [key = '', set = ''] = attribute.toLowerCase().split('=', 2);
          return [key, set];
        }),
      );
      const named = attributes.find((attribute) => /^path=/i.test(attribute))?.slice(5);
      const path = named ?? (pathname.replace(/\/[^/]*$/, '') || '/');
      this.#cookies = this.#cookies.filter(
        (known) => !(known.host === host && known.name === name && known.path === path),
      );
      const expires = attributes.find((attribute) => /^expires=/i.test(attribute))?.slice(8);
      const isGone = byName.get('max-age') === '0' || (expires !== undefined && Date.parse(expires) < Date.now());
      if (!isGone && value !== '')
        this.#cookies.push({ host, name, value, path, isStrict: byName.get('samesite') === 'strict' });
    }
  }
}
