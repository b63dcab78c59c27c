/** Terms with their values; undefined ones are left out. `narrow` where values are short figures. */
export function Facts({
  facts,
  narrow = false,
}: {
  facts: readonly (readonly [term: string, value: string | undefined])[];
  narrow?: boolean;
}) {
  return (
    <dl className={narrow ? 'facts figures' : 'facts'}>
      {facts.map(
        ([term, value]) =>
          value !== undefined && (
            <div key={term}>
              <dt>{term}</dt>
              <dd className="wrap numbers">{value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
