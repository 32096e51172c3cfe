<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22" styleCategories="Symbology">
  <pipe>
    <rasterrenderer type="paletted" band="1" opacity="0.5" alphaBand="-1" nodataColor="">
      <rasterTransparency/>
      <minMaxOrigin>
        <limits>None</limits>
        <extent>WholeRaster</extent>
        <statAccuracy>Estimated</statAccuracy>
      </minMaxOrigin>
      <colorPalette>
        <paletteEntry value="0" color="#000000" alpha="0" label="no data"/>
        <paletteEntry value="1" color="#bebebe" alpha="0" label="original"/>
        <paletteEntry value="2" color="#73b2ff" alpha="255" label="reconstructed under thin cloud"/>
        <paletteEntry value="3" color="#005ce6" alpha="255" label="reconstructed under thick cloud"/>
        <paletteEntry value="4" color="#e64c00" alpha="255" label="reconstructed with low confidence"/>
        <paletteEntry value="5" color="#ffd37f" alpha="255" label="cloud left as it came"/>
        <paletteEntry value="6" color="#4ca05a" alpha="255" label="from another date"/>
        <paletteEntry value="7" color="#9866cc" alpha="255" label="from radar"/>
      </colorPalette>
    </rasterrenderer>
    <brightnesscontrast brightness="0" contrast="0"/>
    <huesaturation saturation="0" colorizeOn="0" grayscaleMode="0"/>
    <rasterresampler maxOversampling="2"/>
  </pipe>
  <blendMode>0</blendMode>
</qgis>
