/** Takes user and password out of the first URL: the package wants them apart. */
export function splitUrl(url: string): { servers: string[]; user?: string; pass?: string } {
  let user: string | undefined;
  let pass: string | undefined;
  const servers = url.split(',').map((part) => {
    const match = /^([a-z]+:\/\/)(?:([^:@/]*)(?::([^@/]*))?@)?(.+?)\/?$/.exec(part.trim());
    if (!match) return part.trim();
    if (match[2] !== undefined) user ??= decodeURIComponent(match[2]);
    if (match[3] !== undefined) pass ??= decodeURIComponent(match[3]);
    return `${match[1]}${match[4]}`;
  });
  return { servers, ...(user === undefined ? {} : { user }), ...(pass === undefined ? {} : { pass }) };
}

/** The URL without credentials, for messages. */
export function publicUrl(url: string): string {
  return url.replace(/\/\/[^/@,]*@/g, '//');
}
