/** Forms `case` can produce. */
export const CASES = ['upper', 'lower', 'title', 'sentence', 'camel', 'pascal', 'snake', 'kebab', 'constant'] as const;
export type Case = (typeof CASES)[number];

/** A text in another case. Identifier forms split words at spaces, signs and humps (`fooBar` → `foo bar`). */
export function changeCase(text: string, to: Case): string {
  switch (to) {
    case 'upper':
      return text.toUpperCase();
    case 'lower':
      return text.toLowerCase();
    case 'title':
      return text.toLowerCase().replaceAll(/(?<![\p{L}\p{N}'’])\p{L}/gu, (letter) => letter.toUpperCase());
    case 'sentence':
      return text.toLowerCase().replaceAll(/(?:^\s*|[.!?]\s+)\p{L}/gu, (start) => start.toUpperCase());
    case 'camel':
      return words(text)
        .map((word, index) => (index === 0 ? word : capital(word)))
        .join('');
    case 'pascal':
      return words(text).map(capital).join('');
    case 'snake':
      return words(text).join('_');
    case 'kebab':
      return words(text).join('-');
    case 'constant':
      return words(text).join('_').toUpperCase();
  }
}

function words(text: string): string[] {
  const apart = text.replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2').replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2');
  return (apart.match(/[\p{L}\p{N}]+/gu) ?? []).map((word) => word.toLowerCase());
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
