/** What can be read from a page. */
export const EXTRACT_TYPES = ['text', 'links', 'structured'] as const;
export type ExtractType = (typeof EXTRACT_TYPES)[number];
