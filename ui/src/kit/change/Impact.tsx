import { useTranslation } from 'react-i18next'
import type { components } from '../../api/schema'
import { Notice, type Tone } from '../state/Notice'
import classes from './Impact.module.css'

type Area = components['schemas']['ResourceImpact']

const tone = (area: Area): Tone => {
  if (!area.computed) return 'warn'
  if (area.count === 0) return 'live'
  return area.effects.some((x) => x.effect === 'cut') ? 'bad' : 'warn'
}

/** Whom a change would cut off or reroute, by area. Says "no one" only if that was computed. */
export function Impact({ areas }: { areas: Area[] }) {
  const { t } = useTranslation()
  return areas.map((area) => (
    <Notice key={area.area} tone={tone(area)} title={t(`impact.names.${area.area}`)}>
      {!area.computed && t('impact.unknown', { why: area.why })}
      {area.computed && area.count === 0 && t(`impact.${area.area}.none`, { count: area.checked })}
      {area.effects.map((x) => (
        <div key={x.effect}>{t(`impact.${area.area}.${x.effect}`, { count: x.count })}</div>
      ))}
      {area.first.length > 0 && (
        <ul className={classes.list}>
          {area.first.map((who) => (
            <li key={who.what}>
              <div className="mono">{who.what}</div>
              <span className="soft">{who.verdict_before}</span> → {who.verdict_after}
            </li>
          ))}
          {area.count > area.first.length && <li>{t('impact.more', { count: area.count - area.first.length })}</li>}
        </ul>
      )}
    </Notice>
  ))
}
