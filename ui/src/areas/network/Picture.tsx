import { useElementSize } from '@mantine/hooks'
import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { healthQuery } from '../../api/state'
import { Panel } from '../../kit/page/Page'
import { Loaded } from '../../kit/state/Loaded'
import { LinkList, type NetworkProps } from './LinkList'
import { layOut, mostLinks } from './layout'
import classes from './Picture.module.css'
import { PictureCard } from './PictureCard'
import { useLinks, useZoneCounts } from './useLinks'
import { zoneWords } from './words'

/** The network as it is now: a drawing, or a list on a phone. */
export function Picture() {
  const { t } = useTranslation('network')
  const { links, rates, queries } = useLinks()
  const counts = useZoneCounts(links)
  return (
    <Panel title={t('picture.title')}>
      <Loaded query={queries.live} height={260}>
        {() =>
          links.length > mostLinks ? (
            <p className={classes.tooMany}>{t('picture.tooMany', { count: links.length })}</p>
          ) : (
            <>
              <Drawing links={links} rates={rates} counts={counts} />
              <LinkList links={links} rates={rates} counts={counts} />
            </>
          )
        }
      </Loaded>
    </Panel>
  )
}

function Drawing({ links, rates, counts }: NetworkProps) {
  const { t } = useTranslation('network')
  const { ref, width: room } = useElementSize()
  const { data: health } = useQuery(healthQuery)
  const { width, height, gateway, bands, trunks, edges } = useMemo(() => layOut(links, room || 1000), [links, room])
  const middle = gateway.x + gateway.width / 2
  return (
    <div ref={ref} className={classes.drawing}>
      {/* biome-ignore lint/a11y/useSemanticElements: a group of links inside a drawing. */}
      <svg viewBox={`0 0 ${width} ${height}`} role="group" aria-label={t('picture.label')} className={classes.picture}>
        {trunks.map(({ key, path }) => (
          <path key={key} className={classes.trunk} d={path} />
        ))}
        <g>
          <rect className={classes.gateway} {...gateway} rx={6} />
          <text className={classes.gatewayName} x={middle} y={gateway.y + 27}>
            {t('picture.gateway')}
          </text>
          <text className={classes.host} x={middle} y={gateway.y + 44}>
            {health?.hostname.split('.')[0]?.slice(0, 15)}
          </text>
        </g>
        {bands.map((band) => (
          <g key={band.zone ?? ''}>
            <rect
              className={classes.band}
              x={band.x}
              y={band.y}
              width={band.width}
              height={band.height}
              rx={6}
              data-none={band.zone === undefined || undefined}
            />
            <text className={classes.zone} x={band.x + 12} y={band.y + 20}>
              {zoneWords(band.zone, counts.get(band.zone ?? ''), t)}
            </text>
          </g>
        ))}
        {edges.map(({ key, path }) => (
          <path key={key} className={classes.edge} d={path} />
        ))}
        {bands.flatMap(({ cards }) =>
          cards.map((card) => <PictureCard key={card.link.name} card={card} rate={rates[card.link.name]} />),
        )}
      </svg>
    </div>
  )
}
